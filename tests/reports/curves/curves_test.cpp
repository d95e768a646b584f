// Held-out losses of several runs, of nqd and of others, over one another on a page.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "reports/evidence.h"
#include "reports/html.h"
#include "tests/temporary_folder.h"

namespace nqd::reports {
namespace {

using testing::TemporaryFolder;

constexpr const char* kPeer = R"({
  "schema_version": 1, "kind": "curves", "source": "PyTorch <2.15>",
  "curves": [
    {"label": "PyTorch, seed 1", "group": "PyTorch", "training_losses": [5.5],
     "evals": [{"step": 0, "heldout_loss": 5.5, "tokens": 64}, {"step": 100, "heldout_loss": 2.25}]},
    {"label": "PyTorch, seed 2", "group": "PyTorch",
     "evals": [{"step": 0, "heldout_loss": 5.625}, {"step": 100, "heldout_loss": 2.75}]},
    {"label": "bigrams", "evals": [{"step": 50, "heldout_loss": null}]}]})";

Evidence read(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / "peer.json", text);
  return read_evidence(folder / "peer.json");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string message_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    CHECK(error.code() == "NQD2101");
    return error.what();
  }
  return {};
}

Evidence own_run(const std::string& folder, const std::string& seed, const std::string& rate) {
  Evidence document;
  document.path = folder + "/evidence.json";
  document.envelope.kind = "train";
  document.envelope.argv = {"nqd", "train"};
  document.envelope.host.hostname = "node-a";
  document.envelope.resolved = {{"train.seed", seed, "--set"},
                                {"train.optimizer.learning_rate", rate, "default"}};
  document.train.evals = {{0, 5.5, 64}, {100, seed == "1" ? 2.0 : 3.0, 64}};
  document.train.steps = {{.step = 1, .loss = 5.5}};
  return document;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// The data of the chart of all runs: from its first label to the end of the line.
std::string overlay(const std::string& page) {
  const auto start = page.find("\"label\": \"Held-out loss\"");
  REQUIRE(start != std::string::npos);
  return page.substr(start, page.find('\n', start) - start);
}

}  // namespace

TEST_CASE("curves of another tool: what is read, and what a document may leave out") {
  const Evidence peer = read(kPeer);
  CHECK(peer.envelope.kind == "curves");
  CHECK(peer.curves.source == "PyTorch <2.15>");
  REQUIRE(peer.curves.curves.size() == 3);
  const LossCurve& second = peer.curves.curves[1];
  CHECK(second.label == "PyTorch, seed 2");
  CHECK(second.group == "PyTorch");
  REQUIRE(second.evals.size() == 2);
  CHECK(second.evals[1].step == 100);
  CHECK(second.evals[1].loss == 2.75);
  CHECK(second.evals[1].tokens == 0);
  CHECK(peer.curves.curves[0].evals[0].tokens == 64);
  CHECK(peer.curves.curves[2].group == "bigrams");
  CHECK(peer.curves.curves[2].evals[0].loss != peer.curves.curves[2].evals[0].loss);
}

TEST_CASE("damaged curves are refused by place") {
  CHECK(message_of(replaced(kPeer, "\"label\": \"bigrams\",", ""))
            .ends_with("curves[2].label is missing"));
  CHECK(message_of(replaced(kPeer, "\"step\": 100", "\"step\": 0"))
            .ends_with("curves[0].evals[1].step is 0, after step 0: steps must ascend"));
  CHECK(message_of(replaced(kPeer, "{\"step\": 50, \"heldout_loss\": null}", ""))
            .ends_with("curves[2].evals is empty: a curve needs a point"));
  CHECK(message_of(replaced(kPeer, "2.25", "\"2.25\"")).find("curves[0].evals[1].heldout_loss") !=
        std::string::npos);
}

TEST_CASE("runs that differ in their seed alone share a colour, with the others' over them") {
  const std::string page = render_html({own_run("a", "1", "0.001"), own_run("b", "2", "0.001"),
                                        own_run("c", "1", "0.002"), read(kPeer)});
  CHECK(count(page, "<section id=\"heldout\"") == 1);
  const std::string chart = overlay(page);
  // The first of each group comes first: a/, c/, PyTorch, bigrams; then b/ like a/, seed 2 like 1.
  std::vector<std::size_t> places;
  for (const char* label :
       {"\"a/evidence.json, seed 1\"", "\"c/evidence.json, seed 1\"", "\"PyTorch, seed 1\"",
        "\"bigrams\"", "\"b/evidence.json, seed 2\"", "\"PyTorch, seed 2\""}) {
    CAPTURE(label);
    places.push_back(chart.find(label));
    REQUIRE(places.back() != std::string::npos);
    if (places.size() > 1) CHECK(places[places.size() - 2] < places.back());
  }
  CHECK(count(chart, "\"like\": null") == 4);
  CHECK(chart.find("\"like\": 0", places[4]) < places[5]);
  CHECK(chart.find("\"like\": 2", places[5]) != std::string::npos);
  CHECK(chart.find("[100, 2.75]") != std::string::npos);
  CHECK(chart.find("[50, null]") != std::string::npos);
  // Means and deviations of the last losses: of 2 and 3, and of 2.25 and 2.75.
  CHECK(page.find("<td class=\"number\">2.5000</td><td class=\"number\">0.7071</td>") !=
        std::string::npos);
  CHECK(page.find("<td class=\"number\">2.5000</td><td class=\"number\">0.3536</td>") !=
        std::string::npos);
  // The peer has no envelope but its word, and no markup.
  CHECK(page.find("<p>PyTorch &lt;2.15&gt;</p>") != std::string::npos);
}

TEST_CASE("one run of nqd needs no comparison; one curve of another tool is a page") {
  CHECK(count(render_html({own_run("a", "1", "0.001")}), "<section id=\"heldout\"") == 0);
  const std::string page = render_html({read(kPeer)});
  CHECK(count(page, "<section id=\"heldout\"") == 1);
  CHECK(count(page, "<section id=\"training\"") == 0);
}

}  // namespace nqd::reports
