// Run directories, metrics, files and progress.
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "core/text_width.h"
#include "core/units.h"
#include "files/digest.h"
#include "files/write.h"
#include "runs/log.h"
#include "runs/metrics.h"
#include "runs/run_directory.h"
#include "tests/support/temporary_files.h"
#include "train/epoch_line.h"
#include "train/progress.h"

using namespace tandem;
using namespace tandem::train;
using Catch::Contains;
using testing::read_text;
using testing::TemporaryDirectory;
using testing::user_error_of;

TEST_CASE("a run directory is never shared", "[run]") {
  const TemporaryDirectory directory;
  const std::string pattern = (directory.path() / "runs/{name}").string();
  CHECK(runs::RunDirectory::create(pattern, "a", "{}\n").path().filename() == "a");
  CHECK(runs::RunDirectory::create(pattern, "a", "{}\n").path().filename() == "a-2");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { runs::RunDirectory::create(pattern, "a", "{}\n"); });
  for (auto& thread : threads) thread.join();
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path() / "runs"))
    names.insert(entry.path().filename());
  CHECK(names == std::set<std::string>{"a", "a-2", "a-3", "a-4", "a-5", "a-6"});
  CHECK_THAT(runs::RunDirectory::create((directory.path() / "{time}").string(), "a", "{}")
                 .path()
                 .filename()
                 .string(),
             Catch::Matches("[0-9]{8}-[0-9]{6}"));
  CHECK_THAT(user_error_of([&] { runs::RunDirectory::create("{nam}", "a", "{}"); }),
             Contains("unknown {nam}"));
  CHECK_THAT(user_error_of([&] { runs::RunDirectory::open(directory.path()); }), Contains("no config.json"));
}

TEST_CASE("files are replaced as a whole", "[run]") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "file";
  files::write_atomically(path, "one");
  files::write_atomically(path, "two");
  CHECK(read_text(path) == "two");
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
  CHECK_THROWS_AS(files::write_atomically((directory.path() / "none/file").string(), "x"), VendorError);
}

namespace {

// A process that is gone.
pid_t ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

void make_old(const std::filesystem::path& path) {
  std::filesystem::last_write_time(path,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
}

}  // namespace

TEST_CASE("the files of a run are never overwritten", "[run]") {
  const TemporaryDirectory directory;
  const auto run = runs::RunDirectory::create((directory.path() / "run").string(), "a", "{}\n");
  std::filesystem::create_directory_symlink(run.path(), directory.path() / "link");
  const auto refused = [](const std::filesystem::path& path) {
    return user_error_of([&] { runs::require_no_file_of_run(path, "--out"); });
  };
  for (const char* own : {"config.json", "metrics.jsonl", "log.txt", "checkpoints/step-1/model.safetensors",
                          "checkpoints/new.bin", "tensorboard/x", "exports/../metrics.csv"}) {
    CAPTURE(own);
    CHECK_THAT(refused(run.path() / own), Contains("belongs to the run") && Contains("--out"));
    CHECK_THAT(refused(directory.path() / "link" / own), Contains("belongs to the run"));
  }
  CHECK_THAT(refused(run.path()), Contains("is the directory of a run"));
  for (const char* free : {"report.html", "exports/best.onnx", "masks/1.png", "mask.png"})
    CHECK(refused(run.path() / free).empty());
  CHECK(refused(directory.path() / "metrics.jsonl").empty());
  // A configuration of the same name makes no run of its folder.
  directory.write("config.json", "{}");
  CHECK(refused(directory.path() / "config.json").empty());
}

TEST_CASE("incomplete files of a dead process are removed", "[run]") {
  const TemporaryDirectory directory;
  const pid_t gone = ended_process();
  const auto left = [&](const std::string& name, pid_t process, const std::vector<std::string>& files) {
    const std::string path = fmt::format("runs/{}.tmp-{}-{}", name, process, process);
    std::filesystem::create_directories(directory.path() / path / "checkpoints");
    for (const std::string& file : files) directory.write(path + "/" + file, "{}");
    make_old(directory.path() / path);
    return directory.path() / path;
  };
  const auto whole = left("a", gone, {"config.json"});
  const auto half = left("b", gone, {fmt::format("config.json.tmp-{}", gone)});
  const auto empty = left("c", gone, {});
  const auto living = left("d", ::getpid(), {"config.json"});
  const auto another = left("e", gone, {"config.json", "notes.txt"});
  const auto trained = left("f", gone, {"config.json", "checkpoints/latest"});
  const auto fresh = left("g", gone, {"config.json"});
  std::filesystem::last_write_time(fresh, std::filesystem::file_time_type::clock::now());
  directory.write("runs/my.tmp-folder/config.json", "{}");
  runs::RunDirectory::create((directory.path() / "runs/new").string(), "a", "{}\n");
  for (const auto& path : {whole, half, empty}) CHECK_FALSE(std::filesystem::exists(path));
  for (const auto& path : {living, another, trained, fresh}) CHECK(std::filesystem::exists(path));
  CHECK(std::filesystem::exists(directory.path() / "runs/my.tmp-folder/config.json"));
}

TEST_CASE("leftovers of an interrupted write are removed by the next", "[run]") {
  const TemporaryDirectory directory;
  const pid_t gone = ended_process();
  const auto left = [&](const std::string& name, pid_t process) {
    const std::filesystem::path path = directory.write(fmt::format("{}.tmp-{}", name, process), "half");
    make_old(path);
    return path;
  };
  const auto old = left("page.html", gone), living = left("page.html", ::getppid()),
             other = left("page", gone);
  const auto fresh = directory.write(fmt::format("page.html.tmp-{}-1", gone), "half");
  files::write_atomically((directory.path() / "page.html").string(), "whole");
  CHECK(read_text(directory.path() / "page.html") == "whole");
  CHECK_FALSE(std::filesystem::exists(old));
  CHECK(std::filesystem::exists(living));
  CHECK(std::filesystem::exists(other));
  CHECK(std::filesystem::exists(fresh));
  files::remove_abandoned(directory.path());
  CHECK_FALSE(std::filesystem::exists(other));
  CHECK(std::filesystem::exists(fresh));
  for (const char* name : {"a.tmp-12", "a.tmp-12-13"}) CHECK(files::is_being_written(name));
  for (const char* name :
       {"a", "a.tmp-", "a.tmp-x", "a.tmp-12-", "a.tmp-12-13-14", "a.tmp-12.json", "a.tmp-0"})
    CHECK_FALSE(files::is_being_written(name));
}

TEST_CASE("a log holds lines of text, whatever they are told", "[run]") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "log.txt";
  runs::Log(path).warning("a\x1b[31m\xff\n2026-01-01 00:00:00.000 error b");
  const std::string text = read_text(path);
  CHECK_THAT(text, Catch::EndsWith(" warning a\\u001b[31m\\xff\\n2026-01-01 00:00:00.000 error b\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  std::FILE* const file = std::tmpfile();
  train::Progress(file, true, true).line("a\x1b[31m\xff\nb");
  CHECK(std::ftell(file) == 19);
  std::rewind(file);
  std::string shown(19, ' ');
  CHECK(std::fread(shown.data(), 1, 19, file) == 19);
  CHECK(shown == "a\\u001b[31m\\xff\\nb\n");
  std::fclose(file);
}

TEST_CASE("appending to a path that is no file fails", "[run]") {
  const TemporaryDirectory directory;
  const std::string fifo = directory.path() / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(runs::Log(fifo), Contains("fifo] is not a regular file"));
  CHECK_THROWS_WITH(files::LineFile(fifo), Contains("fifo: cannot be created"));
}

TEST_CASE("metrics are whole lines at once, with null for what is no number", "[run]") {
  const TemporaryDirectory directory;
  const runs::RunDirectory run = runs::RunDirectory::create((directory.path() / "run").string(), "", "{}");
  runs::MetricsRecord file(run);
  file.add(line_of(runs::StepEvent{.step = 3,
                                   .applied = 2,
                                   .epoch = 1,
                                   .loss = std::nan(""),
                                   .lr = 0.1,
                                   .loss_scale = 8.0,
                                   .skipped = 7,
                                   .grad_norm = 0.25,
                                   .items_per_s = 1000.0}));
  const std::string text = read_text(run.metrics());
  CHECK(read_text(run.metrics_copy()) == text);
  CHECK(read_text(run.metrics_digest()) == files::sha256(text) + "  metrics.jsonl\n");
  CHECK(nlohmann::json::parse(text) == nlohmann::json{{"event", "step"},
                                                      {"step", 3},
                                                      {"applied", 2},
                                                      {"epoch", 1},
                                                      {"loss", nullptr},
                                                      {"lr", 0.1},
                                                      {"loss_scale", 8.0},
                                                      {"skipped", 7},
                                                      {"grad_norm", 0.25},
                                                      {"items_per_s", 1000.0}});
  CHECK_THAT(runs::utc_now(), Catch::Matches("[0-9-]{10}T[0-9:]{8}Z"));
  const runs::Metrics metrics{{"accuracy", 0.5}};
  CHECK(runs::metric(metrics, "accuracy") == 0.5);
  CHECK_THAT(user_error_of([&] { runs::metric(metrics, "mAP"); }), Contains("the task has accuracy"));
}

TEST_CASE("durations, counts and sizes are short", "[run]") {
  CHECK(duration_text(3.21) == "3.2 s");
  CHECK(duration_text(65) == "1:05");
  CHECK(duration_text(3599.4) == "59:59");
  CHECK(duration_text(3600) == "1:00:00");
  CHECK(duration_text(7384) == "2:03:04");
  CHECK(count_text(999) == "999");
  CHECK(count_text(12345) == "12.3k");
  CHECK(count_text(25557032) == "25.56M");
  CHECK(figure_text(0.00035649, 3) == "0.000356");
  CHECK(figure_text(-std::numeric_limits<double>::infinity(), 3) == "–");
  CHECK(figure_text(-std::nan(""), 3) == "–");
  CHECK(bytes_text(512) == "512 B");
  CHECK(bytes_text(1536) == "1.5 KiB");
}

TEST_CASE("progress is a bar on a terminal and lines elsewhere", "[run]") {
  const auto shown = [](bool terminal, bool colour) {
    std::FILE* file = std::tmpfile();
    {
      train::Progress progress(file, terminal, colour);
      progress.update({.epoch = 2,
                       .epochs = 3,
                       .step = 5,
                       .steps = 10,
                       .total_step = 15,
                       .total_steps = 30,
                       .losses = "loss 0.5000"});
      progress.line("a line");
    }
    std::rewind(file);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  };
  const std::string plain = shown(false, false);
  CHECK(plain == "a line\n");  // the first state comes too early for a line of its own
  const std::string bar = shown(true, false);
  CHECK_THAT(bar, Contains("epoch 2/3"));
  CHECK_THAT(bar, Contains("left"));
  CHECK_THAT(bar, Contains("━╌"));  // what is done comes first
  CHECK(bar.find("\x1b[32m") == std::string::npos);
  CHECK_THAT(shown(true, true), Contains("\x1b[32m"));
}

namespace {

train::EpochFigures detector_figures() {
  return {.epoch = 3,
          .epochs = 20,
          .losses = "training loss 2.1234",
          .split = "test",
          .metrics = {{"AP", 0.2}, {"AP50", 0.4}, {"AP75", 0.3}, {"APs", 0.1}, {"mAP", 0.5}, {"loss", 1.5}},
          .best = "mAP",
          .items_per_s = 532,
          .seconds = 65};
}

}  // namespace

TEST_CASE("the line of an epoch has the best figure first and fits the terminal", "[run]") {
  const auto line = train::epoch_line(detector_figures());
  CHECK(train::joined(line) ==
        "epoch 3/20  training loss 2.1234  test: mAP 0.5000  AP 0.2000  AP50 0.4000  AP75 0.3000  "
        "APs 0.1000  loss 1.5000  532 items/s  1:05");
  CHECK(train::fitted(line, 80) == "epoch 3/20  training loss 2.1234  test: mAP 0.5000  loss 1.5000  1:05");
  CHECK(train::fitted(line, 60) == "epoch 3/20  training loss 2.1234  test: mAP 0.5000  1:05");
  CHECK(train::fitted(line, 40) == "epoch 3/20  test: mAP 0.5000  1:05");
  CHECK(train::fitted(line, 4) == "epoc");
}

TEST_CASE("progress on a terminal never takes two rows", "[run]") {
  const auto rows = [](const char* columns) {
    ::setenv("COLUMNS", columns, 1);
    std::FILE* file = std::tmpfile();
    {
      train::Progress progress(file, true, false);
      progress.update({.epoch = 12,
                       .epochs = 300,
                       .step = 512,
                       .steps = 1875,
                       .total_step = 22512,
                       .total_steps = 562500,
                       .losses = "loss discriminator 1.2345, generator 0.9876",
                       .lr = 0.00012345,
                       .items_per_s = 12345});
      progress.line(train::epoch_line(detector_figures()));
    }
    ::unsetenv("COLUMNS");
    std::rewind(file);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    std::vector<std::size_t> widths;
    std::string row;
    for (std::size_t at; (at = text.find("\r\x1b[K")) != std::string::npos;) text.replace(at, 4, "\n");
    for (std::istringstream lines(text); std::getline(lines, row);) widths.push_back(text_width(row));
    return widths;
  };
  for (const int columns : {20, 40, 60, 80, 100, 200}) {
    INFO(columns);
    const auto widths = rows(std::to_string(columns).c_str());
    REQUIRE(widths.size() == 3);  // nothing, the bar, the line
    for (const std::size_t width : widths) CHECK(width < static_cast<std::size_t>(columns));
    CHECK(widths[1] > 10);
  }
}
