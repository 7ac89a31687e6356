// Checkpoints as files: contents, detection of damage, retention.
#include "runs/checkpoint_store.h"

#include <map>
#include <random>
#include <set>

#include "files/digest.h"
#include "files/write.h"
#include "runs/metrics_record.h"
#include "tests/support/temporary_files.h"

using namespace tandem;
using Catch::Contains;
using testing::read_text;
using testing::TemporaryDirectory;
using testing::user_error_of;

namespace fs = std::filesystem;

namespace {

std::string noise(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

struct Files {
  std::string weights = noise(9000, 1), state = noise(14001, 2);
  std::vector<runs::CheckpointStore::File> list() const {
    return {{"weights.safetensors", weights}, {"state.safetensors", state}};
  }
};

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

}  // namespace

TEST_CASE("a checkpoint is whole, and a file that differs in any bit is noticed", "[checkpoint]") {
  const TemporaryDirectory directory;
  const runs::CheckpointStore store(directory.path());
  const Files files;
  store.write("step-7", files.list());
  CHECK(names_in(directory.path()) == std::set<std::string>{"step-7"});
  CHECK(names_in(store.path("step-7")) ==
        std::set<std::string>{"SHA256SUMS", "state.safetensors", "weights.safetensors"});
  CHECK_FALSE(store.damage("step-7"));
  const std::vector<std::string> names{"SHA256SUMS", "state.safetensors", "weights.safetensors"};
  std::map<std::string, std::string> whole;
  for (const std::string& name : names) whole[name] = read_text(store.path("step-7") / name);
  const auto put = [&](const std::string& name, const std::string& text) {
    std::ofstream(store.path("step-7") / name, std::ios::binary) << text;
  };

  SECTION("ten thousand flipped bits") {
    std::mt19937 random(3);
    int unnoticed = 0;
    for (int i = 0; i < 10'000; ++i) {
      const std::string& name = names[random() % names.size()];
      std::string damaged = whole[name];
      damaged[random() % damaged.size()] ^= static_cast<char>(1U << (random() % 8));
      put(name, damaged);
      unnoticed += !store.damage("step-7");
      put(name, whole[name]);
    }
    CHECK(unnoticed == 0);
    CHECK_FALSE(store.damage("step-7"));
  }
  SECTION("every 512 bytes the end") {
    for (const std::string& name : names) {
      for (std::size_t end = 0; end < whole[name].size(); end += 512) {
        INFO(name << " ends after " << end);
        put(name, whole[name].substr(0, end));
        CHECK(store.damage("step-7"));
      }
      put(name, whole[name] + "x");
      CHECK(store.damage("step-7"));
      fs::remove(store.path("step-7") / name);
      CHECK(store.damage("step-7"));
      put(name, whole[name]);
    }
    CHECK_FALSE(store.damage("step-7"));
  }
  SECTION("digests of other files") {
    put("SHA256SUMS", whole["SHA256SUMS"] + files::sha256("") + "  ../../etc/passwd\n");
    CHECK(store.damage("step-7"));
    put("SHA256SUMS", std::string(100'000, 'a'));
    CHECK(store.damage("step-7"));
  }
}

TEST_CASE("a checkpoint of the same step is replaced; leftovers go", "[checkpoint]") {
  const TemporaryDirectory directory;
  const runs::CheckpointStore store(directory.path());
  Files files;
  store.write("step-7", files.list());
  files.weights = "other";
  store.write("step-7", files.list());
  CHECK(read_text(store.path("step-7") / "weights.safetensors") == "other");
  CHECK_FALSE(store.damage("step-7"));
  CHECK(names_in(directory.path()) == std::set<std::string>{"step-7"});
  directory.write("step-9.tmp-1234/weights.safetensors", "half");
  directory.write("latest.tmp-1234", "st");
  CHECK(store.newest_first() == std::vector<std::string>{"step-7"});
  store.remove_leftovers();
  CHECK(names_in(directory.path()) == std::set<std::string>{"step-7"});
}

TEST_CASE("files of a checkpoint that stay are not written again", "[checkpoint]") {
  const TemporaryDirectory directory;
  const runs::CheckpointStore store(directory.path());
  const Files files;
  auto list = files.list();
  list.push_back({"run.json", "before"});
  store.write("step-7", list);
  const auto weights = store.path("step-7") / "weights.safetensors";
  fs::create_hard_link(weights, directory.path() / "same");
  store.write("step-7", {{"run.json", "after"}}, {"weights.safetensors", "state.safetensors"});
  CHECK(fs::equivalent(weights, directory.path() / "same"));
  fs::remove(directory.path() / "same");
  CHECK(fs::hard_link_count(weights) == 1);
  CHECK(read_text(weights) == files.weights);
  CHECK(read_text(store.path("step-7") / "run.json") == "after");
  CHECK_FALSE(store.damage("step-7"));
  CHECK(names_in(directory.path()) == std::set<std::string>{"step-7"});

  // What is not there cannot stay.
  for (const char* missing : {"metrics.json", "other"})
    CHECK_THROWS_AS(store.write("step-7", {}, {"weights.safetensors", missing}), VendorError);
  CHECK_THROWS_AS(store.write("step-8", {{"run.json", ""}}, {"weights.safetensors"}), VendorError);
  CHECK_FALSE(store.damage("step-7"));
  CHECK(names_in(directory.path()) == std::set<std::string>{"step-7"});
}

TEST_CASE("a checkpoint that was moved aside to be replaced comes back", "[checkpoint]") {
  const TemporaryDirectory directory;
  const runs::CheckpointStore store(directory.path());
  const Files files;
  store.write("step-7", files.list());
  fs::rename(store.path("step-7"), directory.path() / "step-7-replaced.tmp-1234");
  store.remove_leftovers();
  CHECK_FALSE(store.damage("step-7"));
  // The other one is there by now.
  fs::copy(store.path("step-7"), directory.path() / "step-7-replaced.tmp-1234");
  directory.write("other-replaced.tmp-1234/weights.safetensors", "");
  store.remove_leftovers();
  CHECK_FALSE(store.damage("step-7"));
  CHECK(names_in(directory.path()) == std::set<std::string>{"step-7"});
}

TEST_CASE("latest comes first, and old checkpoints go but for the best", "[checkpoint]") {
  const TemporaryDirectory directory;
  const runs::CheckpointStore store(directory.path());
  const Files files;
  for (const int step : {5, 10, 15, 20, 100}) store.write(runs::CheckpointStore::name_of(step), files.list());
  CHECK(store.newest_first() ==
        std::vector<std::string>{"step-100", "step-20", "step-15", "step-10", "step-5"});
  store.point("latest", "step-20");
  CHECK(store.newest_first().front() == "step-20");
  CHECK(store.newest_first()[1] == "step-100");
  // The run went on from 20: 100 belongs to a course that was left.
  store.prune(2, {"step-5"});
  CHECK(names_in(directory.path()) == std::set<std::string>{"latest", "step-15", "step-20", "step-5"});
  for (const std::string text : {"", "step-", "step-x", "../step-20", "step-21", "step-20\nstep-15"}) {
    directory.write("latest", text);
    CHECK_FALSE(store.pointed_at("latest"));
    CHECK(store.newest_first().front() == "step-20");
  }
}

TEST_CASE("metrics that happen again are forgotten", "[resume]") {
  const TemporaryDirectory directory;
  const std::string start = R"({"event":"start"})"
                            "\n",
                    one = R"({"event":"step","step":1})"
                          "\n",
                    two = R"({"event":"step","step":2})"
                          "\n",
                    gradients = R"({"event":"gradients","step":2})"
                                "\n",
                    eval = R"({"event":"eval","step":2})"
                           "\n",
                    three = R"({"event":"step","step":3})"
                            "\n",
                    torn = R"({"event":"step","st)";
  std::int64_t unreadable = 0;
  const auto kept = [&](std::int64_t step, bool evaluated) {
    return runs::without_later_events(start + one + two + eval + three + torn,
                                      {.step = step, .evaluated = evaluated, .mark = {}}, unreadable);
  };
  CHECK(kept(2, true) == start + one + two + eval);
  CHECK(kept(2, false) == start + one + two);
  CHECK(kept(0, false) == start);
  CHECK(kept(9, true) == start + one + two + eval + three);
  CHECK(unreadable == 0);
  // A last line without its end may be a piece of a longer one.
  CHECK(runs::without_later_events(start + one + two.substr(0, two.size() - 1),
                                   {.step = 9, .evaluated = true, .mark = {}}, unreadable) == start + one);
  // The gradients of an epoch's last step are there once, whenever the epoch is evaluated.
  const auto of_epoch = [&](bool trained) {
    return runs::without_later_events(two + gradients + eval,
                                      {.step = 2, .epoch_trained = trained, .mark = {}}, unreadable);
  };
  CHECK(of_epoch(true) == two + gradients);
  CHECK(of_epoch(false) == two);
  CHECK(runs::without_later_events("no event\n" + one, {.step = 1, .mark = {}}, unreadable) == one);
  CHECK(unreadable == 1);
}

TEST_CASE("a text may be some lines ahead of its digest, and not otherwise different", "[resume]") {
  std::string text;
  std::vector<std::string> digests{files::sha256("")};
  for (int line = 1; line <= 20; ++line) {
    text += "line " + std::to_string(line) + "\n";
    digests.push_back(files::sha256(text));
  }
  for (int line = 0; line <= 20; ++line) {
    INFO("digest after line " << line);
    CHECK(runs::has_running_digest(text, digests[static_cast<std::size_t>(line)]) == (line >= 16));
    CHECK(runs::has_running_digest(text + "half a l", digests[static_cast<std::size_t>(line)]) ==
          (line >= 17));
  }
  CHECK(runs::has_running_digest("", files::sha256("")));
  CHECK(runs::has_running_digest("a", files::sha256("")));
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] ^= 1;
    CHECK_FALSE(runs::has_running_digest(damaged, digests.back()));
    CHECK_FALSE(runs::has_running_digest(text.substr(0, at), digests.back()));
  }
}

TEST_CASE("a mark says what metrics.jsonl held, with what could not be written", "[resume]") {
  const runs::MetricsMark mark{.bytes = 12, .sha256 = files::sha256("x"), .unwritten = "half\n\"a\" line\n"};
  const auto read = runs::MetricsMark::from_json(mark.to_json());
  REQUIRE(read);
  CHECK(read->bytes == 12);
  CHECK(read->sha256 == mark.sha256);
  CHECK(read->unwritten == mark.unwritten);
  for (const char* text : {"", "[]", "{}", R"({"bytes":1})", R"({"bytes":-1,"sha256":"12"})"})
    CHECK_FALSE(runs::MetricsMark::from_json(text));
}
