"""Numbers that look random and are the same with every version of Python."""


class Hash:
    """SplitMix64: the finaliser of a counter."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        z = (z ^ z >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        return ((z ^ z >> 31) >> 11) * bound >> 53

    def of(self, among):
        return among[self.below(len(among))]
