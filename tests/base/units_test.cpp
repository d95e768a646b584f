#include "base/units.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

namespace nqd {
namespace {

TEST_CASE("sizes: bare letters and iB are binary, the other B forms decimal") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("4096") == 4096);
  CHECK(parse_bytes("4096B") == 4096);
  CHECK(parse_bytes("4K") == 4096);
  CHECK(parse_bytes("4k") == 4096);
  CHECK(parse_bytes("64M") == 67'108'864);
  CHECK(parse_bytes("1G") == 1'073'741'824);
  CHECK(parse_bytes("2T") == 2'199'023'255'552);
  CHECK(parse_bytes("64 MiB") == 67'108'864);
  CHECK(parse_bytes("1.5 GiB") == 1'610'612'736);
  CHECK(parse_bytes("1PiB") == 1'125'899'906'842'624);
  CHECK(parse_bytes("25 MB") == 25'000'000);
  CHECK(parse_bytes("80GB") == 80'000'000'000);
  CHECK(parse_bytes("3 kB") == 3000);
  CHECK(parse_bytes("0.5 kB") == 500);
  CHECK(parse_bytes("1e3") == 1000);
  CHECK(parse_bytes("13.04 GiB") == 14'001'593'385);
}

TEST_CASE("what is not a whole non-negative number of bytes below 2^63 is refused") {
  for (const char* text : {"", " ", "K", "-1", "-0", "1.5", "0.3", "4Q", "4 kib", "4KK", "0x10",
                           "inf", "nan", "1e400", "16000000 T", "9223372036854775808", "4 K "}) {
    INFO(text);
    CHECK_FALSE(parse_bytes(text));
  }
}

TEST_CASE("large whole numbers keep every digit") {
  CHECK(parse_bytes("9007199254740993") == 9'007'199'254'740'993);
  CHECK(parse_bytes("9223372036854775807 B") == 9'223'372'036'854'775'807);
}

TEST_CASE("bytes are printed in both units from 1000 on") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(812) == "812 B");
  CHECK(format_bytes(999) == "999 B");
  CHECK(format_bytes(1000) == "1.00 kB (1000 B)");
  CHECK(format_bytes(1024) == "1.02 kB (1.00 KiB)");
  CHECK(format_bytes(1.75e9) == "1.75 GB (1.63 GiB)");
  CHECK(format_bytes(-1.75e9) == "-1.75 GB (-1.63 GiB)");
  CHECK(format_bytes_binary(80 * kGiB) == "80.00 GiB");
  CHECK(format_bytes_binary(5e18) == "4440.89 PiB");
}

TEST_CASE("a value that would print as 1000.00 goes to the next unit") {
  CHECK(format_bytes_binary(1048575.9) == "1.00 MiB");
  CHECK(format_bytes(999'999) == "1.00 MB (976.56 KiB)");
  CHECK(format_seconds(0.9999999) == "1.00 s");
  CHECK(format_seconds(0.9999999e-3) == "1.00 ms");
  CHECK(format_seconds(0.9999999e-6) == "1.00 us");
  CHECK(format_short(999'999) == "1.00 M");
}

TEST_CASE("seconds") {
  CHECK(format_seconds(0) == "0 s");
  CHECK(format_seconds(1.5) == "1.50 s");
  CHECK(format_seconds(75) == "75.00 s");
  CHECK(format_seconds(0.0123) == "12.30 ms");
  CHECK(format_seconds(4.5e-6) == "4.50 us");
  CHECK(format_seconds(2.5e-10) == "0.25 ns");
  CHECK(format_seconds(-0.0123) == "-12.30 ms");
}

TEST_CASE("counts") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1,000");
  CHECK(format_count(124'439'808) == "124,439,808");
  CHECK(format_count(~0ull) == "18,446,744,073,709,551,615");
  CHECK(format_short(812) == "812");
  CHECK(format_short(12'345) == "12.35 k");
  CHECK(format_short(124'439'808) == "124.44 M");
  CHECK(format_short(7e9) == "7.00 B");
  CHECK(format_short(1.5e13) == "15.00 T");
}

}  // namespace
}  // namespace nqd
