torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py \
  --num-layers 11 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --vocab-size 1024 \
  --pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 --bf16 \
  --pipeline-model-parallel-layout 'Et*3|(tt,|)*2t*4mm,L' --mtp-num-layers 2 --qk-layernorm
