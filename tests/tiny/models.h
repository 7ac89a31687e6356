// Models for tests only, one of each interface in models/, as a program outside the tree would provide them.
#pragma once

namespace tandem::test {

// Makes "tiny_causal", "tiny_translator", "tiny_bag", "tiny_detector" and "tiny_gan" known to configurations.
void add_tiny_models();

}  // namespace tandem::test
