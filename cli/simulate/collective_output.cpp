#include "cli/simulate/collective_output.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "collectives/host_map.h"
#include "reports/chrome_trace.h"
#include "reports/envelope.h"
#include "reports/json_writer.h"

namespace nqd::cli {
namespace {

using collectives::Chunk;
using collectives::RankTraffic;
using collectives::SimulatedMessage;
using collectives::Simulation;
using reports::JsonWriter;

constexpr auto kInline = JsonWriter::Layout::kInline;
constexpr std::size_t kElementBytes = sizeof(double);
// A line of text shows so many elements of a vector.
constexpr std::size_t kShownElements = 32;

std::string printed(double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.6g", value);
  return buffer.data();
}

// What rank_traffic says that the rank sends, in elements.
std::size_t predicted_elements(const Simulation& simulation, std::size_t rank) {
  const collectives::HostMap hosts(
      collectives::simulated_hosts(simulation.ranks, simulation.ranks_per_node));
  const RankTraffic predicted = rank_traffic(hosts, simulation.collective, simulation.algorithm,
                                             rank, simulation.elements, kElementBytes);
  return predicted.bytes_sent / kElementBytes;
}

// "1 1 | 6* 6*": chunks apart, complete elements starred, the end of long vectors left out.
std::string vector_text(const Simulation& simulation, std::size_t step, std::size_t rank) {
  const std::vector<double>& vector = simulation.values[step][rank];
  std::string text;
  for (std::size_t i = 0; i < simulation.ranks; ++i) {
    const Chunk chunk = collectives::chunk_of(vector.size(), simulation.ranks, i);
    if (chunk.count == 0) break;
    if (i > 0) text += " |";
    for (std::size_t e = chunk.begin; e < chunk.begin + chunk.count; ++e) {
      if (e >= kShownElements) return text + " …";
      text += " " + printed(vector[e]) + (simulation.complete[step][rank][e] ? "*" : "");
    }
  }
  return text;
}

// "elements 4…5", and the chunk that they are, if they are one.
std::string part_text(const Simulation& simulation, const SimulatedMessage& message) {
  const std::string elements = "elements " + std::to_string(message.begin) + "…" +
                               std::to_string(message.begin + message.values.size() - 1);
  for (std::size_t i = 0; i < simulation.ranks; ++i) {
    const Chunk chunk = collectives::chunk_of(simulation.elements, simulation.ranks, i);
    if (chunk.begin == message.begin && chunk.count == message.values.size()) {
      return "chunk " + std::to_string(i) + ", " + elements;
    }
  }
  return elements;
}

std::string message_text(const Simulation& simulation, const SimulatedMessage& message) {
  std::string text = "  " + std::to_string(message.from) + " → " + std::to_string(message.to) +
                     "  " + part_text(simulation, message) + ":";
  const std::size_t shown = std::min(message.values.size(), kShownElements);
  for (std::size_t e = 0; e < shown; ++e) text += " " + printed(message.values[e]);
  if (shown < message.values.size()) text += " …";
  if (message.contributions > 1) {
    text += "  (sum of " + std::to_string(message.contributions) + " ranks)";
  }
  return text + "\n";
}

std::string vectors_text(const Simulation& simulation, std::size_t step) {
  std::string text;
  for (std::size_t rank = 0; rank < simulation.ranks; ++rank) {
    text += "  rank " + std::to_string(rank) + " " + vector_text(simulation, step, rank) + "\n";
  }
  return text;
}

void put_vectors(JsonWriter& json, const char* key, const collectives::RankVectors& vectors) {
  json.key(key).begin_array();
  for (const std::vector<double>& vector : vectors) json.value(std::span(vector));
  json.end();
}

void put_step(JsonWriter& json, const Simulation& simulation, std::size_t step) {
  json.begin_object();
  json.field("step", step);
  json.key("messages").begin_array();
  for (const SimulatedMessage& message : simulation.messages) {
    if (message.step != step) continue;
    json.begin_object(kInline)
        .field("from", message.from)
        .field("to", message.to)
        .field("begin", message.begin)
        .field("count", message.values.size())
        .field("contributions", message.contributions)
        .field("values", std::span(message.values))
        .end();
  }
  json.end();
  put_vectors(json, "values", simulation.values[step]);
  json.key("complete").begin_array();
  for (const std::vector<bool>& rank : simulation.complete[step]) {
    json.begin_array(kInline);
    for (std::size_t e = 0; e < rank.size(); ++e) {
      if (rank[e]) json.value(e);
    }
    json.end();
  }
  json.end().end();
}

// One end of an arrow, inside a slice of the rank.
void put_arrow(JsonWriter& json, const char* phase, std::size_t id, std::size_t rank, double at_s) {
  json.begin_object(kInline)
      .field("name", "message")
      .field("cat", "message")
      .field("ph", phase)
      .field("bp", "e")
      .field("id", id)
      .field("ts", at_s * 1e6)
      .field("pid", 0)
      .field("tid", rank)
      .end();
}

void put_slice(JsonWriter& json, const Simulation& simulation, const SimulatedMessage& message,
               double start_s, double length_s) {
  json.begin_object(kInline)
      .field("name", part_text(simulation, message) + " to rank " + std::to_string(message.to))
      .field("cat", "send")
      .field("ph", "X")
      .field("ts", start_s * 1e6)
      .field("dur", length_s * 1e6)
      .field("pid", 0)
      .field("tid", message.from)
      .key("args")
      .begin_object(kInline)
      .field("step", message.step)
      .field("bytes", message.values.size() * kElementBytes)
      .field("contributions", message.contributions)
      .end()
      .end();
}

}  // namespace

std::string simulation_text(const Simulation& simulation) {
  std::string text =
      std::string(name(simulation.collective)) + ", " + std::string(name(simulation.algorithm)) +
      ", " + std::to_string(simulation.ranks) + " ranks, " + std::to_string(simulation.elements) +
      " elements; * complete, | between chunks\n\nstart\n" + vectors_text(simulation, 0);
  for (std::size_t step = 1; step <= simulation.steps; ++step) {
    text += "\nstep " + std::to_string(step) + "\n";
    for (const SimulatedMessage& message : simulation.messages) {
      if (message.step == step) text += message_text(simulation, message);
    }
    text += vectors_text(simulation, step);
  }
  text += "\nrank  messages  elements sent  cost function\n";
  for (std::size_t rank = 0; rank < simulation.ranks; ++rank) {
    const RankTraffic& sent = simulation.sent[rank];
    std::array<char, 96> line{};
    std::snprintf(line.data(), line.size(), "%4zu  %8zu  %13zu  %13zu\n", rank,
                  static_cast<std::size_t>(sent.messages),
                  static_cast<std::size_t>(sent.bytes_sent / kElementBytes),
                  predicted_elements(simulation, rank));
    text += line.data();
  }
  return text;
}

std::string simulation_json(const Simulation& simulation) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", reports::kSchemaVersion);
  json.field("collective", name(simulation.collective));
  json.field("algorithm", name(simulation.algorithm));
  json.field("ranks", simulation.ranks);
  json.field("ranks_per_node", simulation.ranks_per_node);
  json.field("elements", simulation.elements);
  json.key("chunks").begin_array(kInline);
  for (std::size_t i = 0; i < simulation.ranks; ++i) {
    json.value(collectives::chunk_of(simulation.elements, simulation.ranks, i).count);
  }
  json.end();
  put_vectors(json, "input", simulation.values.front());
  json.key("steps").begin_array();
  for (std::size_t step = 1; step <= simulation.steps; ++step) put_step(json, simulation, step);
  json.end();
  put_vectors(json, "result", simulation.values.back());
  json.key("messages_per_rank").begin_array(kInline);
  for (const RankTraffic& sent : simulation.sent) json.value(sent.messages);
  json.end();
  json.key("elements_sent_per_rank").begin_array(kInline);
  for (const RankTraffic& sent : simulation.sent) json.value(sent.bytes_sent / kElementBytes);
  json.end();
  json.key("predicted_elements_per_rank").begin_array(kInline);
  for (std::size_t rank = 0; rank < simulation.ranks; ++rank) {
    json.value(predicted_elements(simulation, rank));
  }
  json.end().end();
  return json.take();
}

std::string simulation_trace(const Simulation& simulation, const collectives::Link& link) {
  const auto length_s = [&](const SimulatedMessage& message) {
    return link.alpha_s +
           static_cast<double>(message.values.size() * kElementBytes) * link.beta_s_per_byte;
  };
  // starts_s[s] is when step s begins; arrows end a step later, where its receiver goes on.
  std::vector<double> starts_s(simulation.steps + 2, 0.0);
  for (std::size_t step = 1; step <= simulation.steps; ++step) {
    double longest_s = 0;
    for (const SimulatedMessage& message : simulation.messages) {
      if (message.step == step) longest_s = std::max(longest_s, length_s(message));
    }
    starts_s[step + 1] = starts_s[step] + longest_s;
  }
  JsonWriter json;
  json.begin_object().field("displayTimeUnit", "ns").key("traceEvents").begin_array();
  reports::put_track_name(
      json, "process_name", 0,
      std::string(name(simulation.collective)) + " " + std::string(name(simulation.algorithm)));
  for (std::size_t rank = 0; rank < simulation.ranks; ++rank) {
    reports::put_track_name(json, "thread_name", rank, "rank " + std::to_string(rank));
  }
  for (std::size_t i = 0; i < simulation.messages.size(); ++i) {
    const SimulatedMessage& message = simulation.messages[i];
    put_slice(json, simulation, message, starts_s[message.step], length_s(message));
    put_arrow(json, "s", i, message.from, starts_s[message.step]);
    put_arrow(json, "f", i, message.to, starts_s[message.step + 1]);
  }
  json.end().end();
  return json.take();
}

}  // namespace nqd::cli
