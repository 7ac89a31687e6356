#include "data/loading.h"

namespace tandem::datasets {

const options::Schema& LoadingOptions::schema() {
  static const options::Schema schema =
      options::Describe<LoadingOptions>()
          .key("batch_size", &LoadingOptions::batch_size, "samples in a batch", {.min = 1, .max = 1048576})
          .key("eval_batch_size", &LoadingOptions::eval_batch_size,
               "samples in a batch of an evaluation; auto: batch_size",
               {.min = 1, .max = 1048576, .keyword = "auto"})
          .key("workers", &LoadingOptions::workers,
               "threads that load ahead on cores of their own; 0: load between steps", {.min = 0, .max = 256})
          .key("prefetch", &LoadingOptions::prefetch, "batches that workers keep ready",
               {.min = 0, .max = 1024})
          .key("shuffle", &LoadingOptions::shuffle, "a new order in every epoch")
          .key("drop_last", &LoadingOptions::drop_last, "leave out a last training batch that is not full")
          .key("overfit_batches", &LoadingOptions::overfit_batches,
               "train and evaluate on the first so many training batches only, in order and without "
               "augmentation; 0: off",
               {.min = 0, .max = 1073741824});
  return schema;
}

}  // namespace tandem::datasets
