"""Is the stream of scalar normal numbers the one that torch draws?"""

import numpy as np
import pytest

from generate.environments.restless import RestlessBandit
from generate.environments.torch_stream import scalar_normals

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.engines

SEEDS = [0, 1, 2**31, 2**32 - 1, *range(20261009, 20261019), *range(30000000, 30000100)]


@pytest.mark.parametrize("n", [1, 2, 80, 701])
def test_numbers_are_bit_for_bit_those_of_torch(n):
    for seed in SEEDS:
        torch.manual_seed(seed)
        drawn = [torch.normal(torch.tensor(0.0), torch.tensor(1.0)).item() for _ in range(n)]
        assert scalar_normals(seed, n).tolist() == drawn


def test_rewards_are_those_of_the_task_as_torch_pays_them():
    environment = RestlessBandit(reward_means=(40.0, 60.0), reward_sd=8.0, block_lengths=(21, 20, 20, 19))
    episodes = environment.episodes(SEEDS)
    world = environment.draw(episodes)
    chooser = np.random.RandomState(9)
    for index, seed in enumerate(SEEDS):
        np.random.seed(seed)
        torch.manual_seed(seed)
        means = np.random.permutation([40, 60])[::-1]
        trial = 0
        for length in environment.block_lengths:
            for place in range(length):
                arm = chooser.randint(2)
                mean = torch.tensor(means[arm], dtype=torch.float)
                paid = np.round(torch.normal(mean, torch.tensor(8, dtype=torch.float)).item(), 2)
                if place == length - 1:
                    means = means[::-1]
                assert world.rewards[world.which[index], trial, arm] == paid
                assert world.means_after[world.which[index], trial].tolist() == means.tolist()
                trial += 1
