#!/bin/bash
#SBATCH --nodes=2048
#SBATCH --ntasks-per-node=8
# 126 layers over 16 stages: embedding and loss count as one layer each.

DTYPE=${DTYPE:-"fp8"}
OPTIONS=" \
    --use-mcore-models \
    --num-layers 126 --hidden-size 16384 --ffn-hidden-size 53248 \
    --num-attention-heads 128 --group-query-attention --num-query-groups 8 --kv-channels 128 \
    --seq-length 8192 --max-position-embeddings 8192 \
    --position-embedding-type rope --rotary-base 500000 \
    --swiglu --normalization RMSNorm --disable-bias-linear \
    --untie-embeddings-and-output-weights \
    --vocab-size 128256 --make-vocab-size-divisible-by 128 \
    --attention-dropout 0.0 --hidden-dropout 0.0 \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --sequence-parallel \
    --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split \
    --micro-batch-size 1 --global-batch-size 2048 --train-samples 2048000 \
    --bf16 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    --lr 8e-5 --min-lr 8e-7 --weight-decay 0.1 --lr-warmup-samples 204800 \
    --adam-beta1 0.9 --adam-beta2 0.95"

if [[ "$DTYPE" == "fp8" ]]; then
    OPTIONS+=" --fp8-format hybrid --fp8-amax-history-len 1024"
else
    OPTIONS+=" --recompute-activations"
fi

run_cmd="python -u ${DIR}/pretrain_gpt.py ${OPTIONS}"
srun -l --container-image /images/train.sqsh bash -c "${run_cmd}" > train.log 2>&1
