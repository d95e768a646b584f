// Steps of llm.c's CPU trainer (https://github.com/karpathy/llm.c), timed. train.py builds it beside
// train_gpt2.c, whose functions it includes as test_gpt2.c does.
//
//   llmc_train MODEL BATCH SEQUENCE STEPS      prints the seconds of each step, a line a step
#define TESTING
#include "train_gpt2.c"

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int batch = atoi(argv[2]);
  const int sequence = atoi(argv[3]);
  const int steps = atoi(argv[4]);
  GPT2 model;
  gpt2_build_from_checkpoint(&model, argv[1]);
  int* const tokens = (int*)mallocCheck((size_t)(batch * sequence + 1) * sizeof(int));
  unsigned state = 1;
  for (int i = 0; i <= batch * sequence; ++i) {
    state = state * 1664525U + 1013904223U;
    tokens[i] = (int)((state >> 16) % (unsigned)model.config.vocab_size);
  }
  for (int step = 1; step <= steps; ++step) {
    const double begin = now_s();
    gpt2_forward(&model, tokens, tokens + 1, (size_t)batch, (size_t)sequence);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    gpt2_update(&model, 1e-3F, 0.9F, 0.999F, 1e-8F, 0.0F, step);
    fprintf(stderr, "%.6f\n", now_s() - begin);
  }
  gpt2_free(&model);
  free(tokens);
  return 0;
}
