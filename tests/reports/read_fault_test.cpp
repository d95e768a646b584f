// Damaged and foreign documents: the error names the file, the place and what is wrong.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "reports/evidence.h"
#include "reports/json_writer.h"
#include "tests/reports/sample_records.h"

namespace nqd::reports {
namespace {

using namespace testing;

std::string good_bench() { return bench_json(sample_envelope("bench"), sample_bench()); }
std::string good_train() {
  return train_json(sample_envelope("train"), sample_train(), sample_plan());
}

// The message of the NQD2101 that reading `text` throws.
std::string failure_of(const std::string& text) {
  const auto path = write_sample("damaged.json", text);
  try {
    read_evidence(path);
  } catch (const Error& error) {
    CHECK(error.code() == "NQD2101");
    CHECK(error.exit_code() == ExitCode::kUsage);
    const std::string message = error.what();
    CHECK(message.starts_with(path.string() + ": "));
    return message.substr(path.string().size() + 2);
  }
  FAIL("the document was read");
  return {};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("truncation is told with the length") {
  const std::string whole = good_bench();
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{100}, whole.size() / 2, whole.size() - 3}) {
    CAPTURE(size);
    CHECK(failure_of(whole.substr(0, size)) ==
          "truncated JSON: the text ends at byte " + std::to_string(size) + " inside a value");
  }
}

TEST_CASE("every prefix of a document is refused, whatever it cuts") {
  const std::string whole = good_train();
  const std::size_t end = whole.rfind('}');
  for (std::size_t size = 0; size < end; size += 997) {
    CAPTURE(size);
    CHECK_FALSE(failure_of(whole.substr(0, size)).empty());
  }
}

TEST_CASE("what is not JSON is told with its byte position") {
  CHECK(failure_of("") == "the file is empty");
  CHECK(failure_of(" \n\t ") == "the file is empty");
  CHECK(failure_of("size time busbw\n8 1.2 3.4\n") == "not JSON: byte 0 begins no object");
  CHECK(failure_of("\x7f"
                   "ELF\x02\x01") == "not JSON: byte 0 begins no object");
  CHECK(failure_of("{\"a\": 1, oops}").starts_with("not JSON: at byte 9: "));
  CHECK(failure_of("{\"a\": 1e999}").find("number overflow") != std::string::npos);
  CHECK(failure_of(good_bench() + "x").starts_with("not JSON: at byte "));
}

TEST_CASE("foreign JSON is told from evidence") {
  const std::string foreign = "is JSON, but no nqd evidence: it has no schema_version and kind";
  CHECK(failure_of("{}") == foreign);
  CHECK(failure_of("[1, 2]") == foreign);
  CHECK(failure_of("{\"schema_version\": 1}") == foreign);
  CHECK(failure_of(R"({"schema_version": null, "kind": "bench"})") == foreign);
  CHECK(failure_of(R"({"schema_version": 1, "kind": "recipe"})") == "tool is missing");
  CHECK(failure_of(replaced(good_bench(), "\"kind\": \"bench\"", "\"kind\": \"recipe\"")) ==
        "kind is \"recipe\"; known are bench, train, calibration, doctor, "
        "scale, curves");
}

TEST_CASE("another schema version") {
  CHECK(failure_of(replaced(good_bench(), "\"schema_version\": 1", "\"schema_version\": 2")) ==
        "schema_version is 2, newer than the 1 that this nqd reads");
  CHECK(failure_of(replaced(good_bench(), "\"schema_version\": 1", "\"schema_version\": 0")) ==
        "schema_version must be at least 1");
  CHECK(failure_of(replaced(good_bench(), "\"schema_version\": 1", "\"schema_version\": \"1\"")) ==
        "schema_version must be a whole number, it is a string");
}

TEST_CASE("missing and mistyped members are named by path") {
  CHECK(failure_of(replaced(good_bench(), "\"p95_s\": ", "\"p95\": ")) ==
        "rows[0].p95_s is missing");
  CHECK(failure_of(replaced(good_bench(), "\"hostname\"", "\"name\"")) ==
        "host.hostname is missing");
  CHECK(failure_of(replaced(good_bench(), "\"ranks\": 2", "\"ranks\": \"two\"")) ==
        "rows[0].ranks must be a whole number, it is a string");
  CHECK(failure_of(replaced(good_bench(), "\"ranks\": 2", "\"ranks\": 2.5")) ==
        "rows[0].ranks must be a whole number, it is 2.5");
  CHECK(failure_of(replaced(good_bench(), "\"ranks\": 2", "\"ranks\": 3000000000")) ==
        "rows[0].ranks is out of range: 3000000000 is too large");
  CHECK(
      failure_of(replaced(good_bench(), "\"effective_bytes\": 1024", "\"effective_bytes\": -4")) ==
      "rows[0].effective_bytes is out of range: -4 is too small");
  CHECK(failure_of(replaced(good_bench(), "\"in_place\": false", "\"in_place\": 0")) ==
        "options.in_place must be true or false, it is a number");
  CHECK(failure_of(replaced(good_bench(), "\"dtype\": \"float32\"", "\"dtype\": \"float8\"")) ==
        "options.dtype has an unknown value \"float8\"");
  CHECK(failure_of(replaced(good_bench(), "\"rows\": [", "\"rows\": 3, \"old\": [")) ==
        "rows must be an array, it is a number");
  CHECK(failure_of(replaced(good_train(), "\"unit\": \"bytes\"", "\"unit\": \"MB\"")) ==
        "audit[0].unit must be \"bytes\", \"s\" or \"ranks\"");
  CHECK(failure_of(replaced(good_train(), "\"loss\": ", "\"loss\": {}, \"old\": ")) ==
        "steps[0].loss must be a number, it is an object");
}

TEST_CASE("a figure that its samples do not give is refused by name") {
  const collectives::BenchResult sample = sample_bench();
  const auto failure_of_bench = [](const collectives::BenchResult& bench) {
    return failure_of(bench_json(sample_envelope("bench"), bench));
  };
  struct Figure {
    const char* name;
    double collectives::BenchRow::*member;
  };
  for (const Figure& figure : {Figure{"min_s", &collectives::BenchRow::min_s},
                               Figure{"p50_s", &collectives::BenchRow::p50_s},
                               Figure{"p95_s", &collectives::BenchRow::p95_s},
                               Figure{"p99_s", &collectives::BenchRow::p99_s},
                               Figure{"max_s", &collectives::BenchRow::max_s}}) {
    CAPTURE(figure.name);
    for (const double factor : {0.5, 1 + 1e-8}) {
      collectives::BenchResult bench = sample;
      const double right = bench.rows[2].*figure.member;
      bench.rows[2].*figure.member = right * factor;
      CHECK(failure_of_bench(bench) == std::string("rows[2].") + figure.name + " is " +
                                           json_number(right * factor) +
                                           ", but its samples_s give " + json_number(right));
    }
    collectives::BenchResult bench = sample;
    bench.rows[2].*figure.member *= 1 + 1e-10;  // rounding
    CHECK(read_evidence(write_sample("rounded.json", bench_json(sample_envelope("bench"), bench)))
              .bench.rows.size() == sample.rows.size());
  }
  collectives::BenchResult bench = sample;
  bench.rows[0].samples_s.clear();
  CHECK(failure_of_bench(bench) ==
        "rows[0].samples_s is empty: a row is computed from its samples");
  bench = sample;
  bench.rows[0].samples_s[3] = NAN;
  CHECK(failure_of_bench(bench) == "rows[0].samples_s[3] must be a number, it is null");
  bench = sample;
  bench.gemm_rows[1].p50_s = 0.021;
  CHECK(failure_of_bench(bench) == "gemm_rows[1].p50_s is 0.021, but its samples_s give 0.022");
}

TEST_CASE("an edited config is noticed") {
  CHECK(failure_of(replaced(good_bench(), "layers: 6", "layers: 7")) ==
        "config.sha256 is not the SHA-256 of config.yaml");
}

TEST_CASE("whole numbers written as 2.0 and unknown members are accepted") {
  const auto path = write_sample(
      "rewritten.json",
      replaced(good_bench(), "\"ranks\": 2,", "\"ranks\": 2.0, \"added_later\": [1],"));
  CHECK(read_evidence(path).bench.rows[0].ranks == 2);
}

TEST_CASE("a file that is not there") {
  try {
    read_evidence("/nonexistent/bench.json");
    FAIL("it was read");
  } catch (const Error& error) {
    CHECK(error.code() == "NQD2001");
  }
}

}  // namespace nqd::reports
