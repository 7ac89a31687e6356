// The words of a batch of streams without what pads its last rows, where the streams have no words.
#pragma once

#include "data/batch.h"

namespace tandem::tasks {

struct Chunk {
  Tensor token, target;  // i64 [words of a stream, N]
};

// Batch::samples are its targets, so many for each stream.
inline Chunk chunk_of(const datasets::Batch& batch) {
  const Tensor& token = batch["token"];
  const Index words = batch.samples / token.size(1);
  return {token.rows(0, words), batch["target"].rows(0, words)};
}

}  // namespace tandem::tasks
