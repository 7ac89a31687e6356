// Training steps that bench_worker measures, on a synthetic batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "amp/autocast.h"
#include "core/shape.h"
#include "nn/module.h"
#include "train/stages.h"

namespace tandem::bench {

class Training {
 public:
  virtual ~Training() = default;
  // Returns the loss of each trained network.
  virtual std::vector<double> step() = 0;
  virtual Index items() const = 0;                // images, words or pairs per step
  virtual Index parameters() const { return 0; }  // elements; 0: not counted
  // Memory traffic of an update (see optim::Step), the mean of several.
  virtual std::int64_t update_bytes() const = 0;

  train::StageTimer stages;
};

using TrainingPtr = std::unique_ptr<Training>;

struct Supervised {
  std::function<nn::ModulePtr(Index channels, Index classes)> model;
  Shape images;
  Index classes;
  bool by_pixel = false;  // cross entropy and Dice of masks, instead of cross entropy of labels
  bool adamw = false;     // instead of SGD
};

// Classification or segmentation.
TrainingPtr supervised(const Supervised& workload, const amp::Precision& precision);
struct Detection {
  nlohmann::json model;  // of an SSD, for models::build
  Shape images;
  Index classes;  // including the background
  Index objects;  // per image
};

// The task "detection" (docs/detection.md) with SGD.
TrainingPtr detection(const Detection& workload, const amp::Precision& precision);
// DCGAN of width 32, batch 64, with Adam.
TrainingPtr gan(const amp::Precision& precision);
// 2 × 650 LSTM, 10,000 words, 35 steps of 20 streams, with SGD and clipping.
TrainingPtr language(const amp::Precision& precision);
// The task "translation" (docs/translation.md) with a model for models::build, 8000 pieces of one table, 64
// pairs, Adam and clipping.
TrainingPtr translation(const nlohmann::json& model, const amp::Precision& precision);

struct Texts {
  nlohmann::json model;  // for models::build
  Index words;           // of the vocabulary
  Index texts, tokens;   // texts per step, each of as many tokens
  Index masked = 0;      // tokens of each text that are predicted
};

// The task "language" (docs/language.md) on windows, with AdamW and clipping.
TrainingPtr next_words(const Texts& workload, const amp::Precision& precision);
// The task "masked_language" (docs/masked-language.md) on texts of full length, with AdamW and clipping.
TrainingPtr masked_words(const Texts& workload, const amp::Precision& precision);

}  // namespace tandem::bench
