// Wrong or malicious names: damaged runs, paths that are no files, and names and keys with terminal escapes.
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>

#include "core/printable.h"
#include "tests/program/support.h"
#include "tests/support/paths.h"

using namespace tandem::testing;
using Catch::Contains;
using tandem::valid_utf8;

namespace {

Outcome train(const TemporaryDirectory& directory, const std::string& run,
              const std::vector<std::string>& more) {
  return tandem_in(directory, joined({"train", "digits_mlp", "run_dir=" + run}, more));
}

}  // namespace

TEST_CASE("--resume auto passes over what is damaged, and says so", "[program]") {
  const TemporaryDirectory directory;
  const std::vector<std::string> start{"train", "digits_mlp", "epochs=2", "name=digits", "--limit-steps",
                                       "3",     "--resume",   "auto",     "--quiet"};
  const auto runs = directory.path() / "runs";
  const auto sibling = [&](const std::string& name) {  // newer than the run that is gone on with
    std::filesystem::create_directories(runs / name / "checkpoints");
    return "runs/" + name;
  };
  directory.write(sibling("digits-cut") + "/config.json", "{\"data\": ");
  directory.write(sibling("digits-empty") + "/config.json", "");
  directory.write(sibling("digits-text") + "/config.json", "all right");
  directory.write(sibling("digits-list") + "/config.json", "[]");
  sibling("digits-none");  // no run at all
  sibling("digits-fifo");
  REQUIRE(::mkfifo((runs / "digits-fifo/config.json").c_str(), 0600) == 0);
  sibling("digits-folder");
  sibling("digits-folder/config.json");
  const Outcome first = tandem_in(directory, start);
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  for (const char* name : {"cut", "empty", "text", "list", "fifo", "folder"})
    CHECK_THAT(first.err,
               Contains(fmt::format("tandem: warning: runs/digits-{} is ignored by --resume auto", name)));
  CHECK_THAT(first.err, Contains("digits-cut/config.json] is damaged") && Contains("is a FIFO") &&
                            !Contains("digits-none"));
  CHECK(line_count(first.err) == 6);
  const std::string run = first.out.substr(first.out.find("runs/"));
  // It is found again although the others are newer; a run that another process is making is none.
  const auto config = read_text(directory.path() / run.substr(0, run.size() - 1) / "config.json");
  directory.write(sibling("digits-x.tmp-1-1") + "/config.json", config);
  const auto soon = std::filesystem::file_time_type::clock::now() + std::chrono::hours(1);
  for (const auto& entry : std::filesystem::directory_iterator(runs))
    if (entry.path().filename().string().find("digits-2") == std::string::npos)
      std::filesystem::last_write_time(entry.path() / "checkpoints", soon);
  const Outcome again = tandem_in(directory, start);
  CHECK_THAT(again.out, Contains("Run directory: " + run));
  CHECK(line_count(again.err) == 6);
}

TEST_CASE("files of a run that are none are errors, not waits", "[program]") {
  const TemporaryDirectory directory;
  REQUIRE(train(directory, "run", {"epochs=1", "--limit-steps", "2"}).exit_code == 0);
  const auto run = directory.path() / "run";
  const auto fails = [&](std::vector<std::string> arguments, const std::string& what) {
    INFO(arguments[0] << " " << what);
    CHECK_THAT(refused(tandem_in(directory, std::move(arguments))), Contains(what));
  };
  const auto in_place_of = [&](const std::string& name, const char* target, const auto& use) {
    std::filesystem::rename(run / name, directory.path() / "aside");
    if (std::string(target) == "fifo") {
      REQUIRE(::mkfifo((run / name).c_str(), 0600) == 0);
    } else {
      std::filesystem::create_symlink(target, run / name);
    }
    use();
    std::filesystem::remove(run / name);
    std::filesystem::rename(directory.path() / "aside", run / name);
  };
  for (const char* target : {"/dev/full", "/dev/zero", "fifo", "/proc/kmsg"}) {
    const std::string kind = std::string(target).starts_with("/dev") ? "is a device"
                             : target[0] == '/'                      ? "kmsg"
                                                                     : "is a FIFO";
    const std::string what = kind == "kmsg" ? "metrics.jsonl] " : "metrics.jsonl] " + kind;
    in_place_of("metrics.jsonl", target, [&] {
      fails({"report", "run"}, what);
      fails({"train", "run", "epochs=2"}, what);
    });
  }
  in_place_of("config.json", "fifo", [&] {
    for (const char* command : {"report", "train", "eval"}) fails({command, "run"}, "config.json] is a FIFO");
  });
  in_place_of("checkpoints/step-2/state.safetensors", "fifo", [&] {
    fails({"train", "run", "epochs=2"}, "state.safetensors] is a FIFO");
    fails({"eval", "run"}, "state.safetensors] is a FIFO");
  });
  REQUIRE(::mkfifo((directory.path() / "fifo.safetensors").c_str(), 0600) == 0);
  fails({"inspect", "fifo.safetensors"}, "fifo.safetensors] is a FIFO, not a regular file");
  fails({"eval", "run", "--weights", "fifo.safetensors"}, "fifo.safetensors] is a FIFO");
  fails({"train", "digits_mlp", "init_from=fifo.safetensors"}, "fifo.safetensors] is a FIFO");
  fails({"predict", "run", "fifo.safetensors"}, "expected .jpg");
  std::filesystem::rename(directory.path() / "fifo.safetensors", directory.path() / "fifo.npy");
  fails({"predict", "run", "fifo.npy"}, "fifo.npy] is a FIFO, not a regular file");
}

TEST_CASE("a failure names the newest checkpoint only where there is one", "[program]") {
  const TemporaryDirectory directory;
  REQUIRE(train(directory, "run", {"epochs=1", "--limit-steps", "2"}).exit_code == 0);
  const auto run = directory.path() / "run";
  std::filesystem::remove(run / "environment.json");
  std::filesystem::create_directory(run / "environment.json");  // cannot be written
  const Outcome saved = tandem_in(directory, {"train", "run", "epochs=2"});
  CHECK(saved.exit_code == 1);
  CHECK_THAT(saved.err,
             Contains("environment.json: cannot be replaced") &&
                 Contains("\nThe run resumes from its newest checkpoint with: tandem train run\n"));
  std::filesystem::remove_all(run / "checkpoints/step-2");
  const Outcome unsaved = tandem_in(directory, {"train", "run", "epochs=2"});
  CHECK(unsaved.exit_code == 1);
  CHECK_THAT(unsaved.err,
             Contains("\nThe run has saved nothing yet, and starts again with: tandem train run\n"));
}

TEST_CASE("paths and keys are escaped on a terminal", "[program]") {
  const TemporaryDirectory directory;
  const auto clean = [](const std::string& text) {
    return valid_utf8(text) == text && text.find("\u009b") == std::string::npos &&
           std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 || c == '\n' || c == '\t'; });
  };
  const auto check = [&](std::vector<std::string> arguments, int code) {
    INFO(arguments[0]);
    const Outcome outcome = tandem_in(directory, std::move(arguments));
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == code);
    CHECK(clean(outcome.out));
    CHECK(clean(outcome.err));
    return outcome;
  };
  const std::string evil = "r\x1b[31m\xff\u009b";
  const Outcome missing = check({"train", evil + ".json"}, 2);
  CHECK_THAT(missing.err, Contains("tandem: r\\u001b[31m\\xff\\u009b.json: no such file"));
  CHECK(check({"train", "a\nb.json"}, 2).err.find("a\\nb.json: no such file") != std::string::npos);
  check({"trai\x1b[31mn\xff"}, 2);
  check({"train", "digits_mlp", "--limit-steps", "\x1b[31m\xff"}, 2);
  check({"train", "digits_mlp", "epochs=\x1b[31m"}, 2);
  check({"train", "digits_mlp", "epochs=\xff"}, 2);
  check({"train", "digits_mlp", "model={\"type\": \"\\u001b[31m\"}"}, 2);
  const auto file =
      directory.write("keys.json", "{\"base\": \"digits_mlp\", \"a\\u001b\\u009b\x7f\u009b\": 1}");
  check({"train", file}, 2);
  check({"validate", file}, 2);
  check({"validate", "digits_mlp", "model.layers.\u009b31m=1"}, 2);
  check({"show", "digits_mlp", "name=\u009b31m\x1b"}, 0);
  check({"train", "digits_mlp", "run_dir=x\x1b[31m/a", "--limit-steps", "1"}, 0);

  // A configuration's and a run's own names may be any bytes.
  std::filesystem::copy_file(tandem::test::source_path("configs/digits_mlp.json"),
                             directory.path() / (evil + ".json"));
  check({"train", evil + ".json",
         "run_dir="
         "run",
         "epochs=1", "--limit-steps", "2"},
        0);
  std::filesystem::rename(directory.path() / "run", directory.path() / evil);
  check({"eval", evil}, 0);
  check({"inspect", evil}, 0);
  check({"report", evil}, 0);
  for (const char* command : {"eval", "inspect"})
    CHECK(nlohmann::json::accept(check({command, evil, "--json"}, 0).out));
  check({"train", evil, "epochs=2"}, 0);
  for (const auto& event : json_lines(directory.path() / evil / "metrics.jsonl")) CHECK(event.is_object());
  CHECK(nlohmann::json::accept(read_text(directory.path() / evil / "environment.json")));
  const std::string log = read_text(directory.path() / evil / "log.txt");
  CHECK(clean(log));
}
