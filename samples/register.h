// Sample data sets: Debian's texts and pictures, and composed scenes. They use the same registries as any
// extension (docs/extend.md).
#pragma once

namespace tandem::samples {

// Adds all samples to the registries of data sets and corpora, once. Throws UserError after a registry's
// first use.
void register_all();

}  // namespace tandem::samples
