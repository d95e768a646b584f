#include "reports/html.h"

#include <doctest/doctest.h>

#include <cmath>
#include <regex>

#include "base/error.h"
#include "reports/page/format.h"
#include "tests/reports/sample_records.h"

namespace nqd::reports {
namespace {

using namespace testing;

Evidence document(const std::string& kind) {
  Evidence evidence;
  evidence.path = "runs/q/" + kind + ".json";
  evidence.envelope = sample_envelope(kind);
  return evidence;
}
Evidence bench_document() {
  Evidence evidence = document("bench");
  evidence.bench = sample_bench();
  return evidence;
}
Evidence train_document() {
  Evidence evidence = document("train");
  evidence.train = sample_train();
  evidence.data_path = "runs/q/data";
  return evidence;
}
Evidence calibration_document() {
  Evidence evidence = document("calibration");
  evidence.calibration = sample_calibration();
  return evidence;
}
Evidence doctor_document() {
  Evidence evidence = document("doctor");
  evidence.checks = sample_checks();
  return evidence;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}
std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// The page without the chart library, whose code mentions tags and addresses of its own.
std::string own_markup(std::string html) {
  const auto start = html.find("/*!\n * Chart.js");
  const auto end = html.find("</script>", start);
  REQUIRE(start != std::string::npos);
  return html.erase(start, end - start);
}

}  // namespace

TEST_CASE("a page has a section for each kind present, and no other") {
  const std::string all =
      render_html({bench_document(), train_document(), calibration_document(), doctor_document()});
  for (const char* section :
       {"summary", "training", "audit", "fabric", "compute", "machine", "provenance"}) {
    CAPTURE(section);
    CHECK(count(all, std::string("<section id=\"") + section + "\"") == 1);
  }
  const std::string bench = render_html({bench_document()});
  CHECK(contains(bench, "<section id=\"fabric\""));
  CHECK_FALSE(contains(bench, "<section id=\"training\""));
  CHECK_FALSE(contains(bench, "<section id=\"audit\""));
  CHECK_FALSE(contains(bench, "<section id=\"machine\""));
  write_sample("report.html", all);
  write_sample("report-bench.html", bench);
}

TEST_CASE("the page is self-contained and its policy forbids the network") {
  const std::string page = own_markup(render_html({bench_document(), train_document()}));
  CHECK(contains(page,
                 "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                 "img-src data:"));
  CHECK_FALSE(std::regex_search(page, std::regex("(src|href)=\"(?!#|data:,)")));
  CHECK_FALSE(contains(page, "@import"));
  CHECK_FALSE(contains(page, "url("));
  CHECK_FALSE(contains(page, "http://"));
  CHECK_FALSE(contains(page, "https://"));
}

TEST_CASE("the chart library is inlined whole, with its licence") {
  const std::string page = render_html({bench_document()});
  CHECK(contains(page, "Released under the MIT License"));
  CHECK(contains(page, "Chart.js Contributors"));
  CHECK(chart_library().starts_with("Chart.js v"));
  // A closing tag inside the library would end its script element early.
  CHECK(count(page, "<script") == 3);
  CHECK(count(page, "</script>") == 3);
}

TEST_CASE("every chart has its numbers as a table") {
  const std::string page =
      own_markup(render_html({bench_document(), train_document(), calibration_document()}));
  CHECK(count(page, "<canvas") == 8);
  CHECK(count(page, "<summary>Numbers</summary>") == 8);
  CHECK(count(page, "{\"kind\": \"lines\"") + count(page, "{\"kind\": \"bars\"") == 8);
}

TEST_CASE("text from documents cannot become markup or script") {
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror='a'>\"&";
  Evidence bench = bench_document();
  bench.path = "runs/" + std::string("<b>.json");
  bench.envelope.argv.push_back(evil);
  bench.envelope.host.hostname = evil;
  bench.envelope.environment.emplace_back("NQD_X", evil);
  bench.bench.rows[0].algorithm = evil;
  bench.bench.verdicts[0].cause = evil;
  const std::string page = render_html({bench});
  CHECK_FALSE(contains(page, "<script>alert"));
  CHECK_FALSE(contains(page, "<img"));
  CHECK_FALSE(contains(page, "<b>"));
  CHECK(count(page, "<script") == 3);
  CHECK(contains(page, "&lt;/script&gt;&lt;script&gt;alert(1)"));
  CHECK(contains(page, "\\u003c/script>\\u003cscript>alert(1)"));
}

TEST_CASE("provenance names the dataset and its digest") {
  Evidence train = train_document();
  CHECK(contains(render_html({train}), "runs/q/data, SHA-256 " + train.train.data_digest));
  train.train.data_digest.clear();
  CHECK(contains(render_html({train}), "runs/q/data, not verified"));
  CHECK_FALSE(contains(render_html({bench_document()}), "not verified"));
}

TEST_CASE("the audit shows what agrees and what does not") {
  Evidence train = train_document();
  const std::string good = render_html({train});
  CHECK(contains(good, "8 of 8"));
  CHECK(count(good, "✓ exact") == 8);
  CHECK_FALSE(contains(good, "✗"));
  CHECK(contains(good, ">12,961,382,400 B</td>"));
  CHECK(contains(good, ">2 ranks</td>"));
  CHECK(contains(good, "<summary>What each rank sent</summary>"));

  train.train.audit[0].measured += 4;
  train.train.audit[0].ratio = train.train.audit[0].measured / train.train.audit[0].predicted;
  train.train.audit[0].ok = false;
  train.train.audit_ok = false;
  const std::string bad = render_html({train});
  CHECK(contains(bad, "7 of 8"));
  CHECK(contains(bad, "<td class=\"bad\">✗ differs</td>"));
  CHECK(contains(bad, "43,204,612 B"));
}

TEST_CASE("a run that was cut short still makes a page") {
  Evidence train = train_document();
  train.train.audit.clear();
  train.train.evals.clear();
  train.train.steps.clear();
  train.train.fault = {.code = "NQD4001",
                       .message = "rank 1 on node-b was lost",
                       .lost_rank = 1,
                       .lost_host = "node-b",
                       .at_step = 0,
                       .detected_s = 0.25};
  const std::string page = render_html({train});
  CHECK(contains(page, "rank 1 on node-b was lost"));
  CHECK(contains(page, "Lost: rank 1 on host node-b"));
  CHECK_FALSE(contains(page, "<section id=\"training\""));
  write_sample("report-fault.html", page);
}

TEST_CASE("numbers that are not finite are gaps, not broken script") {
  Evidence train = train_document();
  train.train.steps[7].loss = NAN;
  train.train.steps[8].step_s = 0;
  const std::string page = own_markup(render_html({train}));
  CHECK(contains(page, "[8, null]"));
  CHECK_FALSE(contains(page, "nan,"));
  CHECK_FALSE(contains(page, "inf,"));
}

TEST_CASE("long runs stay light and keep their spikes") {
  Evidence train = train_document();
  train.train.steps.clear();
  for (int i = 0; i < 100'000; ++i) {
    train.train.steps.push_back({.step = i + 1,
                                 .loss = i == 54'321 ? 77.125 : 2.0 + 1e-6 * i,
                                 .tokens = 64,
                                 .step_s = 0.01,
                                 .grad_norm = 1,
                                 .lr = 1e-3,
                                 .exposed_communication_s = 0});
  }
  const std::string page = render_html({train});
  CHECK(page.size() < 1'500'000);
  CHECK(contains(page, "[54322, 77.125]"));
}

TEST_CASE("nothing to show is refused") {
  for (const std::vector<Evidence>& nothing :
       {std::vector<Evidence>{}, std::vector<Evidence>{document("bench")},
        std::vector<Evidence>{document("train"), document("calibration")}}) {
    try {
      render_html(nothing);
      FAIL("a page was made");
    } catch (const Error& error) {
      CHECK(error.code() == "NQD2203");
      CHECK(error.exit_code() == ExitCode::kUsage);
    }
  }
}

TEST_CASE("figures as people read them") {
  CHECK(short_bytes(812) == "812 B");
  CHECK(short_bytes(16.0 * 1024 * 1024) == "16 MiB");
  CHECK(short_bytes(1536) == "1.50 KiB");
  CHECK(exact_bytes(1000) == "1,000 B");
  CHECK(exact_bytes(1048576) == "1,048,576 B (1 MiB)");
  CHECK(exact_bytes(1048576, false) == "1,048,576 B");
  CHECK(exact_bytes(0.5) == "0.50 B");
  CHECK(exact_bytes(-3) == "-3 B");
  CHECK(fixed(3.14159, 2) == "3.14");
  CHECK(fixed(NAN, 2) == "–");
  CHECK(fixed(1e308, 0).size() == 309);
  CHECK(shell_line({"nqd", "train", "a b", "it's", "", "--set", "x=[1]"}) ==
        R"(nqd train 'a b' 'it'\''s' '' --set 'x=[1]')");
  CHECK(seconds_between("2026-11-29T14:25:13Z", "2026-11-30T14:25:14Z") == 86401);
  CHECK(seconds_between("yesterday", "2026-11-30T14:25:14Z") == -1);
  CHECK(escape_html("<a href=\"x\">'&'</a>") ==
        "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
}

}  // namespace nqd::reports
