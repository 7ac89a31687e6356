#include "models/word_softmax.h"

#include "models/options.h"

namespace tandem::models {

namespace {

using options::Describe;

SoftmaxRegistry::Entry adaptive_entry() {
  using Options = nn::AdaptiveSoftmaxOptions;
  return SoftmaxRegistry::entry<Options>(
      "adaptive", "rare words in clusters with smaller projections",
      Describe<Options>()
          .key("cutoffs", &Options::cutoffs,
               "first word of each cluster, with words numbered by descending frequency",
               {.min = 1, .max = kMaxExtent, .required = true})
          .key("div_value", &Options::div_value, "cluster i has inputs / div_value^i features",
               {.min = 1.0, .max = 1e6})
          .key("head_bias", &Options::head_bias, "bias for the shortlist and the clusters"),
      [](const Options& options) { return WordSoftmax(options); });
}

SoftmaxRegistry::Entry sampled_entry() {
  using Options = SampledSoftmaxOptions;
  return SoftmaxRegistry::entry<Options>(
      "sampled", "trained against words sampled for each batch; evaluation uses all words",
      Describe<Options>()
          .key("samples", &Options::samples, "words sampled per batch, frequent ones more often",
               size_rule(true))
          .key("unique", &Options::unique, "sample without replacement"),
      [](const Options& options) { return WordSoftmax(options); });
}

}  // namespace

SoftmaxRegistry& word_softmaxes() {
  static SoftmaxRegistry family(
      {.what = "softmax", .help = "softmax over words", .fallback = "full"},
      {SoftmaxRegistry::entry<FullSoftmax>("full", "a score for every word", Describe<FullSoftmax>(),
                                           [](const FullSoftmax&) { return WordSoftmax(); }),
       adaptive_entry(), sampled_entry()});
  return family;
}

void require_fitting(const WordSoftmax& softmax, Index inputs, Index words, bool tied) {
  if (const auto* adaptive = std::get_if<nn::AdaptiveSoftmaxOptions>(&softmax)) {
    if (tied)
      throw OptionError("tied",
                        "an adaptive softmax has no table of all words to share with the embedding; use the "
                        "full or the sampled softmax, or set tied to false");
    const std::string complaint = nn::complaint_of(*adaptive, inputs, words);
    if (!complaint.empty()) throw OptionError("softmax.cutoffs", complaint);
  }
  if (const auto* sampled = std::get_if<SampledSoftmaxOptions>(&softmax)) {
    if (sampled->samples < 1)
      throw OptionError("softmax.samples", fmt::format("{} samples, expected at least 1", sampled->samples));
    if (sampled->samples >= words)
      throw OptionError(
          "softmax.samples",
          fmt::format("{} samples of {} words; use fewer, or the full softmax", sampled->samples, words));
  }
}

}  // namespace tandem::models
