A=(--num-layers 8); A+=(--swiglu)
case ${SIZE:-7B} in 7B) H=64;; *) H=8;; esac
if [[ $H -eq 64 && -n "$H" ]]; then B="--hidden-size $((H * 2))"; else B=; fi
cat <<X >out
--num-layers 1
X
run.py "${A[@]}" $B --num-attention-heads ${A[1]} --seq-length 128 --vocab-size 100 \
  --num-experts 4 --moe-layer-freq '([0]*3+[1]*5)' --moe-router-topk=2 --multi-latent-attention \
  --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1 `date` # end
