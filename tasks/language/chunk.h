// Words of a batch of streams, without the padding of its last rows.
#pragma once

#include "data/batch.h"

namespace tandem::tasks {

struct Chunk {
  Tensor token, target;  // i64 [words of a stream, N]
};

// Batch::samples counts the targets; the last row may not have one for every stream
// (data/text/stream_source.h).
inline Chunk chunk_of(const datasets::Batch& batch) {
  const Tensor& token = batch["token"];
  const Index streams = token.size(1), words = (batch.samples + streams - 1) / streams;
  return {token.rows(0, words), batch["target"].rows(0, words)};
}

}  // namespace tandem::tasks
