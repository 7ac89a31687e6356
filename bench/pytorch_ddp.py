"""Steps of PyTorch's DistributedDataParallel over gloo, for bench/ranks: RANKS processes of THREADS threads each.

Arguments: resnet20|resnet50 RANKS THREADS WARMUP STEPS. Prints the items per second of all processes.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from pytorch_worker import SUPERVISED


def train(rank, ranks, port, network, threads, warmup, steps):
    torch.set_num_threads(threads)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(rank)
    make, shape, classes, _ = SUPERVISED[network]
    batch = shape[0] // ranks
    model = DistributedDataParallel(make().to(memory_format=torch.channels_last), gradient_as_bucket_view=True)
    images = torch.randn(batch, *shape[1:]).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    for _ in range(warmup):
        step()
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(steps):
        step()
    dist.barrier()
    if rank == 0:
        print(steps * batch * ranks / (time.perf_counter() - begun), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    name, count, *numbers = sys.argv[1:]
    free_port = 20000 + os.getpid() % 20000
    mp.spawn(train, args=(int(count), free_port, name, *map(int, numbers)), nprocs=int(count))
