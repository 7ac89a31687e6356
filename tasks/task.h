// Task: the interface of a task family, from its data to its predictions. The training loop, the studies and
// the commands use only this interface and are independent of the contents of batches.
//
// Data is separate from the task: it is opened before the model, whose sizes depend on it, and models can be
// inspected without it (a description in a weights file suffices).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "amp/autocast.h"
#include "core/tensor.h"
#include "data/source.h"
#include "nn/exported.h"
#include "nn/module.h"
#include "nn/ports.h"
#include "optim/step/micro_batches.h"
#include "tasks/breakdown.h"
#include "tasks/carried_state.h"
#include "tasks/metrics.h"
#include "tasks/record.h"

namespace tandem::tasks {

using Json = nlohmann::ordered_json;

// Called after the outputs and before the loss, for timing; may be empty.
using OutputsReady = std::function<void()>;

// Data of a family: opened, or only described.
class Data;
using DataPtr = std::shared_ptr<const Data>;

// The same data with renumbered classes.
struct ReorderedData {
  DataPtr data;
  std::string note;  // note for the user, one line
};

// Names of ids in the data, in the row order of a model's tables (models/word_tables.h).
struct NamedVocabulary {
  std::string what;   // for messages: "words", "source pieces", "classes"
  std::string codec;  // codec of texts; vocabularies of different codecs share no words
  std::vector<std::string> words;
};

class Data {
 public:
  virtual ~Data() = default;
  // Description saved with weights; the family's recall() reads it.
  virtual Json description() const = 0;
  // Samples of the training split; 0: unknown.
  virtual Index training_samples() const = 0;
  // Throws UserError naming `weights` when their data is incompatible with this data.
  virtual void require_like(const Json& saved, const std::string& weights) const = 0;
  // This data with the class order of `saved`, if both have the same classes in different order; else empty.
  // Throws UserError for a description of another family.
  virtual std::optional<ReorderedData> in_order_of(const Json& saved) const {
    (void)saved;
    return std::nullopt;
  }
  // Empty for data without texts.
  virtual std::vector<NamedVocabulary> vocabularies() const { return {}; }
  // Reads every sample not yet read, and calls `bad` with the reason for each unreadable one, one at a time.
  virtual void read_all(const std::function<void(const std::string&)>& bad) const { (void)bad; }
};

// A file that an evaluation saves beside the run's metrics. PNG images also appear in the report and in
// TensorBoard.
struct Artifact {
  std::string file;  // path within the run directory
  std::string contents;
  bool kept = false;  // keep one per evaluation, with the epoch before the extension; else only the newest
};

// Accumulates metrics over the batches of one pass; every sample has the same weight in any batch.
//
// A pass can be distributed: each process has an evaluation made alike, each batch goes through the model in
// one process, and one process accumulates the records of all. Metrics and files are bit-identical to those
// of a single-process evaluation.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  // Runs the model on the batch, in the active mode and precision, and returns the batch's record. Depends
  // only on the batch, including Batch::first, and on the carried state; accumulates nothing.
  virtual Record forward(const datasets::Batch& batch) = 0;
  // Adds the record of a batch, of this process or another. Called for all batches of the pass in their
  // order; runs no model. Throws InternalError for an incomplete record, after which there are no metrics.
  virtual void accumulate(std::span<const std::byte> record) = 0;
  void add(const datasets::Batch& batch) { accumulate(forward(batch)); }
  // Whether state is carried from batch to batch: then every process sees all batches in their order, and
  // skips those of other processes.
  virtual bool carries() const { return false; }
  // Advances the carried state past a batch of another process.
  virtual void skip(const datasets::Batch&) {}

  // The functions below describe the accumulated records and run no model.
  virtual Metrics metrics() const = 0;
  // Details besides metrics, if requested: as members of an object, and as files.
  virtual Json details() const;
  virtual std::vector<Artifact> artifacts() const { return {}; }
  // Empty if classes have no metrics of their own.
  virtual std::optional<Breakdown> breakdown() const { return std::nullopt; }
};

// Input and names of a module, for summaries and exports.
struct Signature {
  nn::Module* module = nullptr;
  Shape sample;  // shape of its input, without the batch
  DType dtype = DType::f32;
  int batch_axis = 0;  // batch axis of its input
  std::string path{};  // of the module below the root; empty for the root
  // Names in exports; empty: those of a classifier.
  std::string input{};
  std::vector<std::string> outputs{};
  // Exported graph; empty: the module's own call.
  nn::Forward graph{};
  // Parts with a graph each, instead of one graph.
  std::vector<nn::Part> parts{};
  // Suppression that a graph can apply to its outputs, on request.
  std::optional<nn::Suppression> suppression{};
  // Reason why it cannot be exported as a graph (e.g. ONNX); empty: it can.
  std::string no_graph{};
};

// Parameters trained by one optimizer of a phase.
struct Share {
  std::string optimizer;  // name; the configuration gives options by it
  nn::Module* trained = nullptr;
};

// Part of an iteration with its own update: the whole iteration for most tasks, one network's turn in
// adversarial training.
struct Phase {
  std::string name;
  nn::Module* trained = nullptr;
  // Losses are summed. With ScalerScope::loss each has its own scale and backward.
  int losses = 1;
  // Optimizers and their parameters; empty: one optimizer with the phase's name for all parameters.
  std::vector<Share> shares{};
};

// The requested loss, and the carried state.
struct LossContext {
  std::size_t phase = 0;
  int loss = 0;                   // index within the phase
  CarriedState* carry = nullptr;  // absent: the stream begins here, and its state is not needed afterwards
  OutputsReady ready{};

  // See CarriedState.
  Tensor carried(std::string_view name) const { return carry ? carry->find(name) : Tensor(); }
  void set_carried(std::string_view name, const Tensor& value) const {
    if (carry) carry->set(name, value.detach());
  }
};

// Options of `tandem predict`. Tasks declare the options they use in predict_options().
struct PredictRequest {
  std::vector<std::string> inputs;  // files and folders
  std::optional<std::int64_t> top;  // results per input, or tokens to sample from
  bool logits = false;
  bool json = false;
  std::string out;                       // the file or folder to write
  std::optional<std::int64_t> count;     // number of samples or tokens to generate
  std::optional<std::int64_t> seed;      // of generation
  std::optional<std::string> prompt;     // beginning of a generated text
  std::vector<std::string> questions{};  // about the inputs
  std::optional<double> temperature;     // of sampling; 0: always the most likely
  std::optional<double> top_p;           // share of probability to sample from
  std::optional<double> repetition_penalty;
  std::optional<double> threshold;  // minimum score of shown boxes, or margin of "no answer"
  std::optional<std::string> stop;  // text that ends generation
};

// Weight of a batch's mean loss:
enum class PartCounts : std::uint8_t {
  samples,
  weight,   // Batch::weight, from its source
  measured  // Task::measured_weight, computed from the batch
};

class Task {
 public:
  virtual ~Task() = default;

  // All trained and saved modules, below one root.
  virtual nn::Module& model() = 0;
  virtual DataPtr data() const = 0;
  // In the order of a step. Default: one, named "train".
  virtual std::vector<Phase> phases() { return {{"train", &model()}}; }

  // A loss of a micro-batch: an f32 scalar, the mean over the batch. Phases of an iteration that draw random
  // numbers in the same order draw the same ones.
  virtual Tensor loss(const datasets::Batch& batch, const LossContext& context = {}) = 0;
  // Weight of a micro-batch in a step of several, and of a shard in its batch.
  virtual PartCounts part_counts() const { return PartCounts::samples; }
  // For PartCounts::measured, without synchronisation. Throws InternalError otherwise.
  virtual optim::PartWeight measured_weight(const datasets::Batch& batch) const;
  // Unit of Batch::samples, for rates: "images", "words".
  virtual std::string samples_are() const { return "items"; }

  // Training batches, shuffled and augmented by the configuration, and batches of a split ("train",
  // "validation", "test") for evaluation. A non-zero `batch_size` replaces the configured one and drops a
  // smaller last batch. Throws InternalError when the data is only described, UserError for a missing split.
  virtual datasets::SourcePtr training_source(Device device, Index batch_size = 0) const = 0;
  virtual datasets::SourcePtr evaluation_source(const std::string& split, Device device) const = 0;
  // The split that selects the best epoch: "validation" if present, else "test"; "train" in an overfit run.
  virtual std::string validation_split() const = 0;
  // A batch of training fields, generated from a seed, or without values if `device` is `shapes`.
  virtual datasets::Batch synthetic_batch(Index samples, std::uint64_t seed, Device device) const = 0;

  // Throws UserError for details that this data does not support.
  virtual std::unique_ptr<Evaluation> evaluation(bool details = false) = 0;
  // Metrics of the family that are undefined on the split, with reasons.
  virtual std::map<std::string, std::string> undefined_figures(const std::string& split) const {
    (void)split;
    return {};
  }
  // Whether a run saves the details of its last evaluation.
  virtual bool keeps_details() const { return false; }

  // One line about the data and one about a batch, for `train --dry-run`.
  virtual std::string text_of(const datasets::Batch& batch) const = 0;
  virtual std::string text_of_data() const = 0;
  // Further notes about the data in a run's output, one line each.
  virtual std::vector<std::string> notes_of_data() const { return {}; }
  // Modules with a single input; the first is exported.
  virtual std::vector<Signature> signatures() = 0;
  // Metadata for programs that run the exported module: keys and texts.
  virtual std::map<std::string, std::string> export_metadata() const { return {}; }
  // Options of `tandem predict` that this task uses, by their command-line names ("--top").
  virtual std::vector<std::string> predict_options() const = 0;
  // Prints or writes the model's results for the inputs. The model is on `device`, in evaluation mode.
  virtual void predict(const PredictRequest& request, Device device) = 0;
};

}  // namespace tandem::tasks
