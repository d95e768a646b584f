#include "engine/io/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "tests/engine/hugging_face/fixtures.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using engine::SafetensorsFile;

namespace {

std::string file_of(const std::string& header, std::size_t data_bytes,
                    std::uint64_t extra_length = 0) {
  const std::uint64_t length = header.size() + extra_length;
  std::string text(sizeof length, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + header + std::string(data_bytes, 'x');
}

// The message with which the content is refused; empty when it is not.
std::string refusal(const std::string& content) {
  const testing::TemporaryFolder folder;
  write_file(folder / "damaged.safetensors", content);
  try {
    const SafetensorsFile file(folder / "damaged.safetensors");
  } catch (const Error& error) {
    CHECK(error.code() == "NQD2070");
    CHECK(error.exit_code() == ExitCode::kUsage);
    CHECK(std::string(error.what()).find("damaged.safetensors") != std::string::npos);
    return error.what();
  }
  return "";
}

bool refused(const std::string& header, std::size_t data_bytes, const std::string& why) {
  const std::string message = refusal(file_of(header, data_bytes));
  INFO(header, ": ", message);
  const bool found = message.find(why) != std::string::npos;
  CHECK(found);
  return found;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape +
         R"(],"data_offsets":[)" + offsets + "]}";
}

}  // namespace

TEST_CASE("a safetensors file is refused where it contradicts itself") {
  const std::string a = entry("a", "F32", "2,3", "0,24");
  CHECK(refusal(file_of("{" + a + "}", 24)) == "");
  CHECK(refusal(file_of("{" + a + ",\"__metadata__\":{\"format\":\"pt\"}}   ", 24)) == "");
  CHECK(refusal(file_of("{}", 0)) == "");
  CHECK(refusal(file_of("{" + entry("e", "F32", "0,9223372036854775807", "0,0") + "}", 0)) == "");

  refused("{" + a + "}", 23, "tensor \"a\" lies at bytes 0 to 24 of 23");
  refused("{" + a + "}", 25, "1 bytes belong to no tensor");
  refused("{" + a + "," + entry("b", "F16", "4", "20,28") + "}", 28,
          "tensor \"b\" overlaps another tensor");
  refused("{" + a + "," + entry("b", "F16", "4", "28,36") + "}", 36,
          "tensor \"b\" begins behind a gap");
  refused("{" + entry("a", "F32", "2,3", "0,20") + "}", 20, "tensor \"a\" has 20 bytes");
  refused("{" + entry("a", "F32", "2,3", "24,0") + "}", 24, "tensor \"a\" lies at bytes 24 to 0");
  refused("{" + entry("a", "F33", "2,3", "0,24") + "}", 24, "unknown dtype \"F33\"");
  refused("{" + entry("a", "F32", "-2,3", "0,24") + "}", 24, "tensor \"a\" is not described");
  refused("{" + entry("a", "F32", "2.0,3", "0,24") + "}", 24, "tensor \"a\" is not described");
  refused("{" + entry("a", "F32", "2,3", "0,24,48") + "}", 24, "tensor \"a\" is not described");
  refused("{" + entry("a", "F32", "4294967296,4294967296", "0,24") + "}", 24, "has 24 bytes");
  refused("{\"a\":7}", 0, "tensor \"a\" is not described");
  refused("{" + a + "," + a + "}", 24, "has \"a\" twice");
  refused("{" + a + ",\"__metadata__\":{\"k\":1}}", 24, "__metadata__ are not texts");
  refused("{" + a + ",\"__metadata__\":[\"k\"]}", 24, "__metadata__ are not an object");
  refused(R"({"a":{"dtype":"F32","shape":6,"data_offsets":[0,24]}})", 24, "is not described");
  refused("[1]", 0, "not a JSON object");
  refused("{" + a, 24, "not JSON");

  CHECK(refusal("1234567").find("7 bytes") != std::string::npos);
  CHECK(refusal(file_of("{}", 0, 1)).find("ends inside its header of 3") != std::string::npos);
  CHECK(refusal(file_of("{}", 0, engine::kMaxSafetensorsHeader))
            .find("header would have 100000002 bytes") != std::string::npos);
}

TEST_CASE("a hostile safetensors header ends in a short message") {
  // Nothing may call itself once a bracket, nor repeat what it was given.
  const std::string deep(200'000, '[');
  refused("{" + entry("a", "F32", deep + std::string(deep.size(), ']'), "0,24") + "}", 24,
          "is not described");
  CHECK(refusal(file_of("{\"" + std::string(1'000'000, 'a'), 24)).size() < 500);
  const testing::TemporaryFolder folder;
  write_file(folder / "empty",
             file_of("{" + entry("e", "F32", "4611686018427387904,4,0", "0,0") + "}", 0));
  CHECK(SafetensorsFile(folder / "empty").tensors().at("e").elements() == 0);
}

TEST_CASE("values written come back as their type rounds them") {
  const testing::TemporaryFolder folder;
  const std::vector<float> values = {1.0F, -2.5F, 1e-3F, 3.0000002F, 65504.0F, -0.0F};
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    engine::SafetensorsWriter writer(folder / "x", {{"first", {2, 2}}, {"second", {2}}}, type);
    writer.append(std::span(values).first(3));
    CHECK_THROWS_AS(writer.commit(), std::logic_error);
    writer.append(std::span(values).subspan(3));
    writer.commit();
    const SafetensorsFile file(folder / "x");
    CHECK(file.metadata().at("format") == "pt");
    const engine::SafetensorsTensor& first = file.tensors().at("first");
    CHECK(first.shape == std::vector<std::int64_t>{2, 2});
    CHECK(engine::float_type(first) == type);
    // Transformers maps tensors in place, so they begin where their elements are aligned.
    CHECK(reinterpret_cast<std::uintptr_t>(file.bytes(first).data()) % 8 == 0);
    std::vector<float> expected = values;
    for (float& value : expected) {
      if (type == DType::kBFloat16) value = to_float(to_bfloat16(value));
      if (type == DType::kFloat16) value = to_float(to_float16(value));
    }
    const tests::Tensors tensors = tests::file_tensors(folder / "x");
    std::vector<float> read = tensors.at("first");
    read.insert(read.end(), tensors.at("second").begin(), tensors.at("second").end());
    CHECK(std::memcmp(read.data(), expected.data(), expected.size() * sizeof(float)) == 0);
    std::vector<float> column(2);
    file.read(first, 1, 2, column);
    CHECK(column == std::vector<float>{expected[1], expected[3]});
  }
}

TEST_CASE("a writer that does not commit leaves nothing") {
  const testing::TemporaryFolder folder;
  { const engine::SafetensorsWriter writer(folder / "x", {{"a", {1}}}, DType::kFloat32); }
  CHECK(std::filesystem::is_empty(folder.path()));
}
