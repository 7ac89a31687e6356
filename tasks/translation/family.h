// Translation: a text from another one – sentences of another language, how a word is pronounced. Metrics:
// loss and perplexity of the references' pieces, and of the translations that beam search writes BLEU, errors
// per piece and the share of texts that are not exactly right.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

TaskRegistry::Entry translation_family();

}  // namespace tandem::tasks
