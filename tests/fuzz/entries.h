// What the fuzzers feed, one function a reader of outside text. Bad input is an answer; a crash, a
// hang, an exception that is no nqd::Error, or an answer that contradicts itself is a finding.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace nqd::fuzz {

void config(std::string_view text);
void megatron(std::string_view text);
void deepspeed(std::string_view text);
void hf(std::string_view text);
void torchtitan(std::string_view text);
void published(std::string_view text);
void nccl_log(std::string_view text);
void safetensors(std::string_view text);
void weights_config(std::string_view text);
void weights_index(std::string_view text);

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

}  // namespace nqd::fuzz
