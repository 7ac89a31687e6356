// The teaching runs: what mixed precision does, shown on real data in minutes.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace tandem::demo {

using Json = nlohmann::ordered_json;

struct Options {
  std::filesystem::path out;  // everything is written here
  bool small = false;         // seconds instead of minutes, on the digits: the sign of the result only
  std::string text;           // the corpus of `diverge` and `language`; empty: where `./run data` puts it
};

// What a demonstration prints, and the files it leaves: demo.json and its charts.
class Session {
 public:
  Session(const std::string& name, Options options);

  const Options& options() const { return options_; }
  bool small() const { return options_.small; }
  // A line for the reader, wrapped by nobody.
  void say(const std::string& text);
  // What goes on meanwhile: on stderr.
  void progress(const std::string& text);
  void chart(const std::string& name, const std::string& svg);
  // Closes the demonstration: the sentence, made from the numbers, and whether they showed what was meant.
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
