# Sets NQD_PRESETS_SOURCE: a generated file that embeds configs/presets into nqd_planner.
set(NQD_MODEL_PRESETS
  byte-gpt-small gpt2-124m gpt2-350m gpt2-774m gpt2-1.5b
  gpt3-125m gpt3-350m gpt3-760m gpt3-1.3b gpt3-2.7b gpt3-6.7b gpt3-13b gpt3-175b
  megatron-22b megatron-530b megatron-1t
  llama2-7b llama2-13b llama2-70b llama3.2-1b llama3-8b llama3-70b llama3-405b qwen2.5-7b qwen2.5-72b
  mixtral-8x7b mixtral-8x22b deepseek-v2-lite deepseek-v3
  vit-b-16 vit-l-16 vit-h-14 crop-foundation
  edsr-baseline-x2 edsr-x4 ddpm-cifar10 sr3-16-128 sr3-64-512)
set(NQD_CLUSTER_PRESETS
  cpu-host single-a100 single-h100 single-nic-h100 dgx-v100 dgx-a100-40 dgx-a100 roce-a100
  dgx-h100 roce-h100 dgx-h200 dgx-b200 dgx-b300 gb200-nvl72 gb300-nvl72 mi250x-node mi300x-node)
set(NQD_GPU_PRESETS
  v100-sxm2-32 a100-sxm-40 a100-sxm-80 a100-pcie-80 h100-sxm h100-hbm2e-96 h100-pcie h200-sxm
  b200 gb200 b300 gb300 mi250x mi300x)
set(NQD_STACK_PRESETS
  megatron-2021 deepspeed-zero3-2021 megatron-2022 megatron-deepspeed-2022 zero-bubble-2023
  llm-foundry-2023 megatron-core-2024 nemo-2024 torchtitan-2024 torchtitan-rowwise-2025
  megatron-core-2025 megatron-core-2026)

set(NQD_PRESETS_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/presets.cpp)
set(preset_folder ${PROJECT_SOURCE_DIR}/configs/presets)
set(preset_files "")
foreach(name IN LISTS NQD_MODEL_PRESETS)
  list(APPEND preset_files ${preset_folder}/models/${name}.yaml)
endforeach()
foreach(name IN LISTS NQD_CLUSTER_PRESETS)
  list(APPEND preset_files ${preset_folder}/clusters/${name}.yaml)
endforeach()
foreach(name IN LISTS NQD_GPU_PRESETS)
  list(APPEND preset_files ${preset_folder}/gpus/${name}.yaml)
endforeach()
foreach(name IN LISTS NQD_STACK_PRESETS)
  list(APPEND preset_files ${preset_folder}/stacks/${name}.yaml)
endforeach()
list(JOIN NQD_MODEL_PRESETS "," model_names)
list(JOIN NQD_CLUSTER_PRESETS "," cluster_names)
list(JOIN NQD_GPU_PRESETS "," gpu_names)
list(JOIN NQD_STACK_PRESETS "," stack_names)
add_custom_command(
  OUTPUT ${NQD_PRESETS_SOURCE}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${NQD_PRESETS_SOURCE} -DFOLDER=${preset_folder}
          -DMODELS=${model_names} -DCLUSTERS=${cluster_names}
          -DGPUS=${gpu_names} -DSTACKS=${stack_names}
          -P ${CMAKE_CURRENT_LIST_DIR}/embed_presets.cmake
  DEPENDS ${preset_files} ${CMAKE_CURRENT_LIST_DIR}/embed_presets.cmake
  VERBATIM)
