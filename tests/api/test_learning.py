"""Models that learn on the device: by examples and by gradients, beside eager torch and the integer reference."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import cortado
from cortado import Options
from cortado.artifact.folder import METHODS
from cortado.artifact.opened import Artifact
from cortado.base.errors import CortadoError
from cortado.learning import (
    SGD,
    Prototypes,
    prototypes,
    squared_error,
    threshold_for,
    trainable,
    weighted_cross_entropy,
)
from cortado.methods import CompiledMethods
from cortado.plan.planned import moved
from cortado.profile import profile

pytestmark = [
    pytest.mark.host,
    pytest.mark.xdist_group("learning"),
    pytest.mark.filterwarnings("ignore::cortado.CortadoWarning"),
]
HOT = torch.eye(5)


class Net(nn.Module):
    """A backbone and a head; with `both` it gives scores and features."""

    def __init__(self, both: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.both = both
        self.backbone = nn.Sequential(nn.Linear(16, 12), nn.ReLU())
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Any:
        features = self.backbone(x)
        return (self.head(features), features) if self.both else self.head(features)


def _kinds(count: int, seed: int, kinds: int = 4) -> tuple[Tensor, Tensor]:
    """Inputs around a middle for each kind."""
    random = torch.Generator().manual_seed(seed)
    middles = torch.randn(kinds, 16, generator=torch.Generator().manual_seed(99)) * 2
    labels = torch.arange(count) % kinds
    return middles[labels] + 0.4 * torch.randn(count, 16, generator=random), labels


# ---- by examples ---------------------------------------------------------------------------------------------------


def _taught(**given: Any) -> Prototypes:
    samples, _ = _kinds(48, seed=1)
    return prototypes(Net(both="rest" in given) if "rest" in given else Net().backbone, 4, samples=samples, **given)


def _lesson(x: Tensor, labels: Tensor) -> list[tuple[Any, ...]]:
    return [("learn", one[None], label[None].int()) for one, label in zip(x, labels, strict=True)]


@pytest.fixture(scope="module")
def examples() -> tuple[Prototypes, CompiledMethods]:
    others = torch.randn(24, 16, generator=torch.Generator().manual_seed(5)) * 2
    taught = _taught(others=others, threshold=-0.5)
    samples, _ = _kinds(40, seed=2)
    calls, methods = taught.calls(samples), taught.methods(samples[:1])
    compiled = cortado.compile_methods(taught, methods, "cortex-m4", calls, options=taught.options())
    return taught, compiled


def test_a_device_learns_classes_by_examples_as_the_module_does(examples: tuple[Prototypes, CompiledMethods]) -> None:
    taught, compiled = examples
    (x, labels), (fresh, kinds) = _kinds(12, seed=3), _kinds(40, seed=4)
    calls = [*_lesson(x, labels), *(("forward", one[None]) for one in fresh)]
    calls += [("forget", torch.tensor([2], dtype=torch.int32)), *(("forward", one[None]) for one in fresh)]
    done = compiled.run(calls, on="host")
    assert done.bit_exact
    running, found = copy.deepcopy(taught), []
    for (name, *values), outputs in zip(calls, done.outputs, strict=True):
        with torch.no_grad():
            expected = getattr(running, name)(*values)
        if name == "forward":
            found.append((int(outputs[0][0]), int(expected[0]), float(outputs[1][0] - expected[1])))
    before, after = found[:40], found[40:]
    assert np.mean([mine == int(kind) for (mine, _, _), kind in zip(before, kinds, strict=True)]) >= 0.95
    assert np.mean([mine == theirs for mine, theirs, _ in found]) >= 0.95
    assert max(abs(difference) for *_, difference in found) < 0.1
    assert all(mine != 2 for mine, *_ in after)  # what was forgotten is no answer


def test_sums_are_those_of_rounded_features_whatever_the_order(examples: tuple[Prototypes, CompiledMethods]) -> None:
    taught, _ = examples
    x, labels = _kinds(20, seed=6)
    sums = []
    for order in (torch.arange(20), torch.arange(19, -1, -1)):
        running = copy.deepcopy(taught)
        for _, *values in _lesson(x[order], labels[order]):
            running.learn(*values)
        sums.append((running.sums, running.counts))
    assert torch.equal(sums[0][0], sums[1][0])
    assert sums[0][1].tolist() == [5, 5, 5, 5]
    assert sums[0][0].dtype == torch.int32


def test_examples_teach_in_float32_too() -> None:
    taught = _taught(others=torch.randn(24, 16, generator=torch.Generator().manual_seed(5)) * 2, threshold=-0.5)
    samples, (x, labels) = _kinds(16, seed=2)[0], _kinds(12, seed=3)
    options = taught.options(Options(activations="float32", weights="float32"))
    compiled = cortado.compile_methods(
        taught, taught.methods(samples[:1]), "cortex-m4", taught.calls(samples), options=options
    )
    calls = [*_lesson(x, labels), *(("forward", one[None]) for one in x)]
    done = compiled.run(calls, on="host")
    assert done.bit_exact
    for _, *values in _lesson(x, labels):
        taught.learn(*values)
    found = torch.from_numpy(np.concatenate([answer[1] for answer in done.outputs[12:]]))
    assert (found - torch.cat([taught(one[None])[1] for one in x])).abs().max().item() < 1e-4


def test_known_classes_answer_first_and_taught_ones_where_it_has_none() -> None:
    taught = _taught(rest=(3, 4))
    x, labels = _kinds(8, seed=7)
    for _, *values in _lesson(x, labels):
        taught.learn(*values)
    fresh, kinds = _kinds(60, seed=8)
    old = Net().eval()(fresh).argmax(1)
    answers = torch.cat([taught(one[None])[0] for one in fresh])
    known = (old != 3) & (old != 4)
    assert torch.equal(answers[known], old[known].int())
    assert bool((answers[~known] == kinds[~known] + 5).float().mean() > 0.9)
    limit = threshold_for(taught, torch.randn(200, 16, generator=torch.Generator().manual_seed(9)) * 2, passing=0.05)
    assert -1.0 < limit < 1.0


def test_what_can_not_be_taught_is_refused() -> None:
    samples, _ = _kinds(8, seed=1)
    for given, message in (
        ({"classes": 0}, "classes is 0, expected the number"),
        ({"samples": samples[:1]}, "samples is a tensor of shape \\[1, 16\\], expected at least 2"),
        ({"rest": (1,)}, "expected the network's own classes"),
        ({"others": samples[:3]}, "others is .*expected at least 5"),
        ({"backbone": nn.Unflatten(1, (4, 4))}, "returns \\[1, 4, 4\\], expected the features of one input"),
        ({"backbone": Net(both=True), "rest": (5,)}, "expected classes from 0 to 4"),
    ):
        asked: dict[str, Any] = {"backbone": Net().backbone, "samples": samples} | given
        with pytest.raises(CortadoError, match=message):
            prototypes(**asked)


# ---- by gradients --------------------------------------------------------------------------------------------------


def _eager(net: nn.Module, x: Tensor, labels: Tensor, lr: float, **how: Any) -> nn.Module:
    """The user's module, trained by torch's own optimizer."""
    net = copy.deepcopy(net)
    clip = how.pop("clip", None)
    parameters = [value for name, value in net.named_parameters() if name.startswith("head")]
    optimizer = torch.optim.SGD(parameters, lr, foreach=False, **how)
    for one, label in zip(x, labels, strict=True):
        optimizer.zero_grad()
        functional.cross_entropy(net(one[None]), label[None]).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(parameters, clip, foreach=False)
        optimizer.step()
    return net


HOW: list[dict[str, Any]] = [
    {"momentum": 0.9, "weight_decay": 1e-3, "clip": 1.0},
    {"momentum": 0.9},
    {"clip": 0.5},
    {},
]


@pytest.mark.parametrize("how", HOW, ids=lambda how: "-".join(how) or "plain")
@pytest.mark.parametrize("head", [nn.Linear(12, 5), nn.Sequential(nn.Linear(12, 7), nn.Tanh(), nn.Linear(7, 5))])
def test_a_hundred_steps_are_those_of_torchs_optimizer(head: nn.Module, how: dict[str, Any]) -> None:
    net = Net()
    net.head = copy.deepcopy(head)  # type: ignore[assignment]
    x, labels = _kinds(100, seed=11)
    taught = trainable(net, optimizer=SGD(lr=0.05, **how), examples=(x[:1],), target=HOT[:1])
    for one, label in zip(x, labels, strict=True):
        taught.learn(one[None], HOT[label][None])  # type: ignore[operator]
    expected = _eager(net.eval(), x, labels, 0.05, **how)
    for name, value in expected.named_parameters():
        if name.startswith("head"):
            assert (getattr(taught, name.replace(".", "_")) - value).abs().max() < 1e-6
    with torch.no_grad():
        assert (taught(x[:1]) - expected(x[:1])).abs().max() < 1e-5


def _trained(**given: Any) -> tuple[Any, Tensor, Tensor]:
    x, labels = _kinds(100, seed=12)
    optimizer = given.pop("optimizer", SGD(lr=0.05, momentum=0.9, weight_decay=1e-3, clip=1.0))
    return trainable(Net(), optimizer=optimizer, examples=(x[:1],), target=HOT[:1], **given), x, labels


def _steps(x: Tensor, labels: Tensor) -> list[tuple[Any, ...]]:
    return [("learn", one[None], HOT[label][None]) for one, label in zip(x, labels, strict=True)]


def _compiled(taught: Any, x: Tensor, labels: Tensor, target: str) -> CompiledMethods:
    calls = taught.calls([(one[None],) for one in x[:40]], [HOT[label][None] for label in labels[:40]])
    return cortado.compile_methods(taught, taught.methods(), target, calls, name="trained")


def test_a_compiled_step_learns_what_eager_torch_learns() -> None:
    taught, x, labels = _trained()
    compiled = _compiled(taught, x, labels, "cortex-m4")
    done = compiled.run([*_steps(x, labels), *(("forward", one[None]) for one in x[:20])], on="host")
    assert done.bit_exact
    expected = _eager(Net().eval(), x, labels, 0.05, **HOW[0])
    with torch.no_grad():
        scores = expected(x[:20])
    found = torch.from_numpy(np.concatenate([one[0] for one in done.outputs[100:]]))
    assert (found - scores).abs().max() < 0.1  # int8 features
    assert float(done.outputs[99][0][0]) < 0.2 * float(done.outputs[0][0][0])  # the loss


@pytest.mark.qemu
@pytest.mark.cases(1)
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m55", "cortex-m4"])
def test_boards_learn_a_hundred_steps_bit_for_bit(target: str) -> None:
    taught, x, labels = _trained()
    compiled = _compiled(taught, x, labels, target)
    assert compiled.run([*_steps(x, labels), ("forward", x[:1])]).bit_exact


def test_a_step_needs_little_beside_its_state() -> None:
    """No gradient is whole in memory, and nothing is copied."""
    net, hot = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 12)), torch.eye(12)
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(5))
    taught = trainable(net, "2.*", optimizer=SGD(0.05, 0.9, 1e-3, 1.0), examples=(x[:1],), target=hot[:1])
    calls = taught.calls([(one[None],) for one in x], [hot[at % 12][None] for at in range(24)])
    planned = cortado.compile_methods(taught, taught.methods(), "cortex-m4", calls).planned["learn"]
    kept = sum(state.tensor.bytes for state in planned.program.state)
    assert kept == 2 * 4 * (64 * 12 + 12)
    assert planned.plan.peak - kept < 1024
    assert not moved(planned)


@pytest.mark.qemu
def test_a_step_on_a_cortex_m4_keeps_to_its_cycles_and_memory(tmp_path: Path) -> None:
    """A linear head of 64 features and 12 classes, one example, with momentum, decay and clip."""
    hot, x = torch.eye(12), torch.randn(32, 64, generator=torch.Generator().manual_seed(5))
    optimizer = SGD(lr=0.05, momentum=0.9, weight_decay=1e-3, clip=1.0)
    net = nn.Sequential(nn.Linear(64, 12))
    taught = trainable(net, "0.*", optimizer=optimizer, examples=(x[:1],), target=hot[:1])
    calls = taught.calls([(one[None],) for one in x], [hot[at % 12][None] for at in range(32)])
    compiled = cortado.compile_methods(taught, taught.methods(), "cortex-m4", calls, name="head")
    planned = compiled.planned["learn"]
    assert planned.plan.peak - sum(state.tensor.bytes for state in planned.program.state) <= 2048
    compiled.save(tmp_path / "head")
    artifact = Artifact.open(tmp_path / "head" / METHODS / "learn")
    found = profile(artifact, [artifact.example()])
    assert found.bit_exact
    assert found.timing.total.cycles.typical <= 20_000


def test_stored_features_take_turns_and_the_learning_rate_may_be_an_input() -> None:
    kept, kinds = _kinds(9, seed=13)
    taught, x, labels = _trained(optimizer=SGD(momentum=0.9), replay=(kept, HOT[kinds]), replayed=2)
    assert list(taught.methods()) == ["forward", "learn"]
    compiled = _compiled(taught, x, labels, "cortex-m4")
    calls = [(*one, torch.tensor([0.05 / (1 + number)])) for number, one in enumerate(_steps(x[:12], labels[:12]))]
    done = compiled.run([*calls, ("forward", x[:1])], on="host")
    assert done.bit_exact
    running = copy.deepcopy(taught)
    for number, (_, *values) in enumerate(calls):
        loss = running.learn(*values)
        assert int(running.replay.at) == 2 * (number + 1) % 9
        assert abs(float(loss) - float(done.outputs[number][0][0])) < 0.05
    assert (running(x[:1]).numpy() - done.outputs[-1][0]).max() < 0.05


def test_other_losses_and_parameters_by_name() -> None:
    x, _ = _kinds(30, seed=14)
    taught = trainable(Net(), "head.bias", squared_error, SGD(lr=0.1), examples=(x[:1],), target=torch.zeros(1, 5))
    before = float(taught.learn(x[:1], torch.ones(1, 5)))  # type: ignore[operator]
    for _ in range(100):
        after = float(taught.learn(x[:1], torch.ones(1, 5)))  # type: ignore[operator]
    assert after < 0.1 * before
    assert taught.names == ["head_bias"]


def _against_eager(taught: Any, targets: Tensor, x: Tensor) -> float:
    """The largest difference of a parameter from torch's own cross entropy and optimizer, after a step for each."""
    net = Net().eval()
    optimizer = torch.optim.SGD(net.head.parameters(), 0.05, foreach=False)
    for one, target in zip(x, targets, strict=True):
        loss = taught.learn(one[None], target[None])
        optimizer.zero_grad()
        expected = functional.cross_entropy(net(one[None]), target[None])
        expected.backward()
        optimizer.step()
        assert abs(float(loss) - expected.item()) < 1e-5 * (1 + expected.item())
    return max(
        (taught.head_weight - net.head.weight).abs().max().item(),
        (taught.head_bias - net.head.bias).abs().max().item(),
    )


def test_targets_that_are_no_probabilities_are_refused_or_have_torchs_gradient() -> None:
    x, _ = _kinds(30, seed=15)
    random = torch.Generator().manual_seed(16)
    soft = torch.rand(30, 5, generator=random)
    given: dict[str, Any] = {"optimizer": SGD(lr=0.05), "examples": (x[:1],), "target": HOT[:1]}
    assert _against_eager(trainable(Net(), **given), soft / soft.sum(1, keepdim=True), x) < 1e-6
    assert _against_eager(trainable(Net(), loss=weighted_cross_entropy, **given), soft * 3.0, x) < 1e-6
    taught = trainable(Net(), **given)
    with pytest.raises(CortadoError, match=r"sums to 0\.5, expected probabilities.*weighted_cross_entropy"):
        taught.learn(x[:1], HOT[:1] * 0.5)  # type: ignore[operator]
    own: list[Any] = [("learn", x[:1], torch.zeros(1, 5)), ("forward", x[:1])]
    for calls in (taught.calls([(x[:1],)], [HOT[:1] * 2.0]), own):
        with pytest.raises(CortadoError, match=r"sums to [02], expected probabilities"):
            cortado.compile_methods(taught, taught.methods(), "cortex-m4", calls)
    kept = trainable(Net(), replay=(x[:5], HOT * 0.2), **given)
    with pytest.raises(CortadoError, match=r"sums to 0\.2, expected"):
        kept.learn(x[:1], HOT[:1])  # type: ignore[operator]


def test_weighted_targets_learn_the_same_bits_in_c() -> None:
    taught, x, labels = _trained(loss=weighted_cross_entropy)
    calls: list[tuple[Any, ...]] = []
    for one, label in zip(x, labels, strict=True):
        calls += [("learn", one[None], HOT[label][None] * (1 + int(label))), ("forward", one[None])]
    compiled = cortado.compile_methods(taught, taught.methods(), "cortex-m4", calls[:80], name="weighted")
    assert compiled.run(calls[:60], on="host").bit_exact


def test_what_has_no_gradients_is_refused() -> None:
    x = torch.zeros(1, 16)
    with pytest.raises(CortadoError, match=r"matches none of the module's: backbone\.0\.weight"):
        trainable(Net(), "tail.*", examples=(x,), target=HOT[:1])
    with pytest.raises(CortadoError, match=r"lr is -1\.0, expected a number that is not negative"):
        SGD(lr=-1.0)
    unused = Net()
    unused.extra = nn.Linear(2, 2)
    with pytest.raises(CortadoError, match="no output depends on the parameters"):
        trainable(unused, "extra.*", examples=(x,), target=HOT[:1])
    with pytest.raises(CortadoError, match="gradients can't be captured"):
        trainable(Net(), examples=(x,), target=torch.zeros(1, 7))
