#include "studies/demo/demo.h"

#include <fmt/core.h>

#include "core/error.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/write.h"

namespace tandem::demo {

namespace fs = std::filesystem;

std::span<const Demo> demos() {
  static constexpr Demo kDemos[] = {
      {"diverge", "FP16 without a loss scale loses gradients of a language model; a loss scale keeps them",
       run_diverge},
      {"language", "the same for an LSTM, layer by layer, with the scale 128 of published runs",
       run_language},
      {"masters", "16-bit weights lose small updates; masters and stochastic rounding keep them",
       run_masters},
      {"histogram", "exponents of gradients, and the share that FP16 flushes at each loss scale",
       run_histogram},
      {"skip", "a loss scale that is too high: the op that overflows, an undone step, recovery of the scale",
       run_skip},
      {"table", "FP32 against mixed precision with and without a loss scale, five seeds", run_table},
      {"statistics", "batch-norm statistics stored in FP16 drift, those in FP32 do not", run_statistics},
  };
  return kDemos;
}

Session::Session(const std::string& name, Options options) : name_(name), options_(std::move(options)) {
  files::make_folder(options_.out);
}

void Session::say(const std::string& text) {
  output::print("{}\n", text);
  output::flush_result();
}

void Session::progress(const std::string& text) { output::remark("{}\n", text); }

void Session::chart(const std::string& name, const std::string& svg) {
  files::write_atomically((options_.out / (name + ".svg")).string(), svg);
}

void Session::verdict(bool shown, const std::string& sentence) {
  Json object{{"demo", name_}, {"small", small()}, {"shown", shown}, {"verdict", sentence}};
  for (const auto& [key, value] : values.items()) object[key] = value;
  files::write_atomically((options_.out / "demo.json").string(), files::json_text(object, 2) + "\n");
  say(fmt::format("\n{}{}", shown ? "" : "Not shown this time: ", sentence));
  say(fmt::format("Output: {}", options_.out.string()));
}

}  // namespace tandem::demo
