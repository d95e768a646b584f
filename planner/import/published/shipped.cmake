# Sets NQD_PUBLISHED_SOURCE: a generated file that embeds configs/published into nqd_planner.
set(NQD_PUBLISHED_TABLES
  korthikanti_table5 llama1 megatron_bridge megatron_h100 mosaic_mpt mtnlg
  nccl_allreduce_a100_v100 nemo_h100_b200 nvidia_dgxc sc21_megatron torchtitan vtrain_multi
  vtrain_single zero_bubble_table4)

set(NQD_PUBLISHED_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/published.cpp)
set(published_folder ${PROJECT_SOURCE_DIR}/configs/published)
set(published_files ${published_folder}/leave-one-out.json)
foreach(name IN LISTS NQD_PUBLISHED_TABLES)
  list(APPEND published_files ${published_folder}/${name}.json)
endforeach()
list(JOIN NQD_PUBLISHED_TABLES "," published_names)
add_custom_command(
  OUTPUT ${NQD_PUBLISHED_SOURCE}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${NQD_PUBLISHED_SOURCE} -DFOLDER=${published_folder}
          -DTABLES=${published_names} -P ${CMAKE_CURRENT_LIST_DIR}/embed_shipped.cmake
  DEPENDS ${published_files} ${CMAKE_CURRENT_LIST_DIR}/embed_shipped.cmake
  VERBATIM)
