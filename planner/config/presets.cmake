# Sets NQD_PRESETS_SOURCE: a generated file that embeds configs/presets into nqd_planner.
set(NQD_MODEL_PRESETS
  byte-gpt-small gpt2-124m gpt2-350m gpt2-774m gpt2-1.5b gpt3-175b
  llama3-8b llama3-70b llama3-405b crop-foundation)
set(NQD_CLUSTER_PRESETS
  cpu-host single-a100 single-h100 dgx-a100-40 dgx-a100 dgx-h100 dgx-h200 dgx-b200 roce-h100)

set(NQD_PRESETS_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/presets.cpp)
set(preset_folder ${PROJECT_SOURCE_DIR}/configs/presets)
set(preset_files "")
foreach(name IN LISTS NQD_MODEL_PRESETS)
  list(APPEND preset_files ${preset_folder}/models/${name}.yaml)
endforeach()
foreach(name IN LISTS NQD_CLUSTER_PRESETS)
  list(APPEND preset_files ${preset_folder}/clusters/${name}.yaml)
endforeach()
list(JOIN NQD_MODEL_PRESETS "," model_names)
list(JOIN NQD_CLUSTER_PRESETS "," cluster_names)
add_custom_command(
  OUTPUT ${NQD_PRESETS_SOURCE}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${NQD_PRESETS_SOURCE} -DFOLDER=${preset_folder}
          -DMODELS=${model_names} -DCLUSTERS=${cluster_names}
          -P ${CMAKE_CURRENT_LIST_DIR}/embed_presets.cmake
  DEPENDS ${preset_files} ${CMAKE_CURRENT_LIST_DIR}/embed_presets.cmake
  VERBATIM)
