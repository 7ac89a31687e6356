// The progress of a run on a terminal, whose epochs have different numbers of steps.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "config/task.h"
#include "core/random.h"
#include "tests/support/temporary_files.h"
#include "train/trainer.h"

using namespace tandem;

namespace {

// What is written to standard error while it is a terminal.
class TerminalErrors {
 public:
  TerminalErrors() : terminal_(::posix_openpt(O_RDWR | O_NOCTTY)), before_(::dup(STDERR_FILENO)) {
    REQUIRE((::grantpt(terminal_) == 0 && ::unlockpt(terminal_) == 0));
    const int errors = ::open(::ptsname(terminal_), O_RDWR | O_NOCTTY);
    REQUIRE(errors >= 0);
    ::dup2(errors, STDERR_FILENO);
    ::close(errors);
  }
  ~TerminalErrors() {
    end();
    ::close(before_);
    ::close(terminal_);
  }
  TerminalErrors(const TerminalErrors&) = delete;
  TerminalErrors& operator=(const TerminalErrors&) = delete;

  std::string text() {
    end();
    std::string all;
    std::array<char, 256> bytes;
    for (ssize_t count; (count = ::read(terminal_, bytes.data(), bytes.size())) > 0;)
      all.append(bytes.data(), static_cast<std::size_t>(count));
    return all;
  }

 private:
  void end() const { ::dup2(before_, STDERR_FILENO); }

  int terminal_, before_;
};

// A text of random words, cut at random places in each epoch.
config::Loaded uneven_epochs(const testing::TemporaryDirectory& directory) {
  std::string text;
  RandomStream random({.seed = 4, .purpose = RandomPurpose::synthetic_data});
  for (int i = 0; i < 1500; ++i) text += fmt::format("w{}{}", random.below(12), i % 9 == 8 ? "\n" : " ");
  const nlohmann::json config{
      {"task", "language"},
      {"model", {{"name", "language_model"}, {"embedding", 4}, {"units", 4}, {"dropout", 0.0}}},
      {"data",
       {{"name", "text"},
        {"train", directory.write("text.txt", text)},
        {"batch_size", 4},
        {"steps", 10},
        {"random_steps", true}}},
      {"optimizer", {{"name", "sgd"}, {"lr", 0.1}}},
      {"accumulate", 2},
      {"epochs", 3},
      {"threads", 1},
      {"tensorboard", false},
      {"run_dir", (directory / "run").string()}};
  return config::load(directory.write("config.json", config.dump()), {});
}

}  // namespace

TEST_CASE("the progress line counts the steps of its own epoch", "[progress]") {
  const testing::TemporaryDirectory directory;
  const config::Loaded loaded = uneven_epochs(directory);
  const auto source = config::make_task(loaded, config::open_data(loaded.config, {}))->training_source({});
  const Index first = (source->batches(0) + 1) / 2, second = (source->batches(1) + 1) / 2;
  REQUIRE(first % second != 0);
  const auto run = runs::RunDirectory::create(loaded.config.run_dir, "run",
                                              config::resolved(loaded.config).dump(2) + "\n");
  train::Trainer(loaded, {.limit_steps = first + 1, .quiet = true}).run(&run, "", train::StopRequest());

  // The first step of a session is always drawn.
  train::Trainer rest(loaded, {.limit_steps = first + 2, .resume = true});
  TerminalErrors errors;
  rest.run(&run, "", train::StopRequest());
  const std::string text = errors.text();
  INFO(text);
  CHECK_THAT(text, Catch::Contains("epoch 2/3  ") && Catch::Contains(fmt::format("  2/{}  loss ", second)));
}
