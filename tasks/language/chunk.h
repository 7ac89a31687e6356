// The words of a batch of streams without what pads its last rows, where the streams have no words.
#pragma once

#include "data/batch.h"

namespace tandem::tasks {

struct Chunk {
  Tensor token, target;  // i64 [words of a stream, N]
};

// Batch::samples are its targets: so many for each stream, of the last row perhaps not for all
// (data/text/stream_source.h).
inline Chunk chunk_of(const datasets::Batch& batch) {
  const Tensor& token = batch["token"];
  const Index streams = token.size(1), words = (batch.samples + streams - 1) / streams;
  return {token.rows(0, words), batch["target"].rows(0, words)};
}

}  // namespace tandem::tasks
