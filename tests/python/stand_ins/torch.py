# SPDX-License-Identifier: Apache-2.0
"""What a connector of LMCache uses of torch."""


class dtype:  # noqa: N801
    def __init__(self, name, itemsize):
        self.name, self.itemsize = name, itemsize

    def __repr__(self):
        return f"torch.{self.name}"


class Size(tuple):
    def numel(self):
        number = 1
        for each in self:
            number *= each
        return number


bfloat16 = dtype("bfloat16", 2)
float32 = dtype("float32", 4)
uint8 = dtype("uint8", 1)
