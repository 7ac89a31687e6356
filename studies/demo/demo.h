// Demonstrations of mixed precision, on real data in minutes.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace tandem::demo {

using Json = nlohmann::ordered_json;

struct Options {
  std::filesystem::path out;  // output folder
  bool small = false;         // run in seconds on the digits; shows only the sign of the result
  std::string text;           // corpus of `diverge` and `language`; empty: that of `./run data`
};

// Output of a demonstration: text, demo.json and charts.
class Session {
 public:
  Session(const std::string& name, Options options);

  const Options& options() const { return options_; }
  bool small() const { return options_.small; }
  // Prints a line, without wrapping.
  void say(const std::string& text);
  // Prints progress to stderr.
  void progress(const std::string& text);
  void chart(const std::string& name, const std::string& svg);
  // Ends the demonstration: whether the numbers show the effect, and a sentence with them.
  void verdict(bool shown, const std::string& sentence);

  Json values = Json::object();

 private:
  std::string name_;
  Options options_;
};

struct Demo {
  const char* name;
  const char* help;
  void (*run)(Session& session);
};

std::span<const Demo> demos();

void run_diverge(Session& session);
void run_language(Session& session);
void run_masters(Session& session);
void run_histogram(Session& session);
void run_skip(Session& session);
void run_table(Session& session);
void run_statistics(Session& session);

}  // namespace tandem::demo
