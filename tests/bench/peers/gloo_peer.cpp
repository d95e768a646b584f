// Times Gloo's all-reduce as run.py times nqd: `gloo_peer RANK RANKS FOLDER ITERATIONS BYTES ...`,
// one process a rank, which meet through files in FOLDER. Prints a line "BYTES WRONG SECONDS ..." a
// size: this rank's time of each call, every one after a barrier.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;

// Whole numbers, whose sums are exact.
float input(int rank, std::size_t element) {
  return static_cast<float>((element + static_cast<std::size_t>(rank)) % 97);
}

void barrier(const Context& context) {
  gloo::BarrierOptions options(context);
  gloo::barrier(options);
}

void measure(const Context& context, std::size_t bytes, int iterations) {
  constexpr int kWarmup = 3;
  const std::size_t count = bytes / sizeof(float);
  std::vector<float> in(count);
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = input(context->rank, i);
  // The buffers are registered with Gloo once, as its users do.
  gloo::AllreduceOptions options(context);
  options.setInput(in.data(), count);
  options.setOutput(out.data(), count);
  options.setReduceFunction(
      [](void* c, const void* a, const void* b, std::size_t n) { gloo::sum<float>(c, a, b, n); });

  std::vector<double> seconds;
  for (int i = -kWarmup; i < iterations; ++i) {
    barrier(context);
    const auto start = std::chrono::steady_clock::now();
    gloo::allreduce(options);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (i >= 0) seconds.push_back(took.count());
  }

  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    float expected = 0;
    for (int rank = 0; rank < context->size; ++rank) expected += input(rank, i);
    if (out[i] != expected) ++wrong;
  }
  std::printf("%zu %zu", bytes, wrong);
  for (const double time : seconds) std::printf(" %.9f", time);
  std::printf("\n");
}

void run(int argc, char** argv) {
  const auto context = std::make_shared<gloo::rendezvous::Context>(std::stoi(argv[1]),  //
                                                                   std::stoi(argv[2]));
  gloo::transport::tcp::attr address;
  address.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore store(argv[3]);
  context->connectFullMesh(store, device);
  for (int i = 5; i < argc; ++i) measure(context, std::stoull(argv[i]), std::stoi(argv[4]));
  barrier(context);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: gloo_peer RANK RANKS FOLDER ITERATIONS BYTES ...\n");
    return 2;
  }
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_peer: %s\n", error.what());
    return 4;
  }
  return 0;
}
