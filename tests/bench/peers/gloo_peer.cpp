// Times Gloo's all-reduces as run.py times nqd: `gloo_peer RANK RANKS FOLDER ALGORITHM ITERATIONS
// BYTES ...`, one process a rank, which meet through files in FOLDER. Prints a line "BYTES WRONG
// SECONDS ..." a size: this rank's time of each call, every one after a barrier. ALGORITHM is
//   ring, bcube       of gloo::allreduce, whose sockets a thread of its own serves
//   halving_doubling  of Gloo's older class, in place; up to 1 MiB the caller itself polls the
//                     sockets, as `--sync --busy-poll` of Gloo's own benchmark does
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;
using Floats = std::vector<float>;

// Whole numbers, whose sums are exact.
float input(int rank, std::size_t element) {
  return static_cast<float>((element + static_cast<std::size_t>(rank)) % 97);
}

// The buffers of `out` and `in` are registered with Gloo once, as its users do.
std::function<void()> all_reduce(const std::string& algorithm, const Context& context, Floats& in,
                                 Floats& out) {
  using Options = gloo::AllreduceOptions;
  if (algorithm == "ring" || algorithm == "bcube") {
    const auto options = std::make_shared<Options>(context);
    options->setInput(in.data(), in.size());
    options->setOutput(out.data(), out.size());
    options->setAlgorithm(algorithm == "ring" ? Options::Algorithm::RING
                                              : Options::Algorithm::BCUBE);
    options->setReduceFunction(
        [](void* c, const void* a, const void* b, std::size_t n) { gloo::sum<float>(c, a, b, n); });
    return [options] { gloo::allreduce(*options); };
  }
  if (algorithm != "halving_doubling") throw std::invalid_argument("no algorithm " + algorithm);
  // Two ranks that write more than their sockets hold wait for each other to read.
  constexpr std::size_t kMostPolled = std::size_t{1} << 20;
  const bool polls = out.size() * sizeof(float) <= kMostPolled;
  for (int peer = 0; polls && peer < context->size; ++peer) {
    if (peer != context->rank) context->getPair(peer)->setSync(true, true);
  }
  const auto old = std::make_shared<gloo::AllreduceHalvingDoubling<float>>(
      context, std::vector<float*>{out.data()}, static_cast<int>(out.size()));
  return [old] { old->run(); };
}

void measure(const std::string& algorithm, const Context& control, const Context& context,
             std::size_t bytes, int iterations) {
  constexpr int kWarmup = 3;
  const std::size_t count = bytes / sizeof(float);
  Floats in(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = input(context->rank, i);
  Floats out = in;
  const std::function<void()> call = all_reduce(algorithm, context, in, out);

  const auto meet = [&] {
    gloo::BarrierOptions options(control);
    gloo::barrier(options);
  };
  std::vector<double> seconds;
  for (int i = -kWarmup; i < iterations; ++i) {
    std::copy(in.begin(), in.end(), out.begin());
    meet();
    const auto start = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (i >= 0) seconds.push_back(took.count());
  }
  meet();  // the peer may still wait for what this rank's sockets hold

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
  gloo::transport::tcp::attr address;
  address.hostname = "127.0.0.1";
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore files(argv[3]);
  const auto connect = [&](const std::string& name) {
    const auto context =
        std::make_shared<gloo::rendezvous::Context>(std::stoi(argv[1]), std::stoi(argv[2]));
    gloo::rendezvous::PrefixStore store(name, files);
    context->connectFullMesh(store, device);
    return context;
  };
  // Barriers have sockets of their own, which nobody polls.
  const Context control = connect("control");
  for (int i = 6; i < argc; ++i) {
    // The older class leaves its buffers' slots taken: a size more, a context more.
    measure(argv[4], control, connect(argv[i]), std::stoull(argv[i]), std::stoi(argv[5]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr, "usage: gloo_peer RANK RANKS FOLDER ALGORITHM ITERATIONS BYTES ...\n");
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
