// Sample data sets: what Debian's packages offer, and scenes composed of pictures. They come through the
// doors that every program has (docs/extend.md).
#pragma once

namespace tandem::samples {

// Adds all of them to the registries of data sets and corpora, once. Throws UserError after a registry's
// first use.
void register_all();

}  // namespace tandem::samples
