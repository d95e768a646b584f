#include "engine/numerics/noise_scale.h"

#include <doctest/doctest.h>

using nqd::engine::NoiseScale;

namespace {

// What |a mean gradient of `batch` sequences|² is on average: |G|² + tr(Σ)/batch.
double square(double signal, double noise, double batch) { return signal + noise / batch; }

}  // namespace

TEST_CASE("the scale of known signal and noise comes back, whatever the batches") {
  for (const double small : {1.0, 4.0}) {
    for (const double large : {8.0, 96.0}) {
      NoiseScale scale;
      scale.add(square(0.25, 12, small), square(0.25, 12, large), small, large);
      CHECK(scale.sequences().value() == doctest::Approx(48));
    }
  }
}

TEST_CASE("signal and noise are averaged before they are divided") {
  NoiseScale scale;
  scale.add(square(1, 10, 1), square(1, 10, 4), 1, 4);
  scale.add(square(3, 90, 1), square(3, 90, 4), 1, 4);
  // Not the mean of 10 and 30.
  CHECK(scale.sequences().value() == doctest::Approx(25));
}

TEST_CASE("no gradient above the noise is no scale") {
  CHECK(!NoiseScale().sequences());
  NoiseScale drowned;
  drowned.add(10, 1, 1, 4);  // less than a quarter of it is noise alone
  CHECK(!drowned.sequences());
  NoiseScale none;
  none.add(0, 0, 1, 4);
  CHECK(!none.sequences());
}
