"""Reads the configuration of ML-Agents 0.8 to 0.15: `default:` and one block per brain, translated to `behaviors:`.

A brain's block lies over `default:`, key by key, and that over the values which came with those versions. A text in the
place of a block is the name of another block whose values are used. Every value keeps the line and the key under which
it was written, so that faults are told in the words of the user's file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from runtime.learner_rules import Whole
from runtime.settings import kinds
from runtime.settings.cloning import CLONING_TRAINERS
from runtime.settings.faults import Fault, Findings, Place, listed, nearest
from runtime.settings.nodes import MapNode, Node, Scalar, described, empty_map

DEFAULT: Final = "default"
SAVE_FREQ: Final = 50_000  # the default of that time's --save-freq
_HYPER: Final = (
    "batch_size",
    "beta",
    "buffer_size",
    "epsilon",
    "lambd",
    "learning_rate",
    "learning_rate_schedule",
    "num_epoch",
)
_NETWORK: Final = ("normalize", "hidden_units", "num_layers", "vis_encode_type")
_PLAIN: Final = ("max_steps", "time_horizon", "summary_freq", "keep_checkpoints")
_CURIOSITY: Final = ("use_curiosity", "curiosity_strength", "curiosity_enc_size")
_OTHERS: Final = (
    "trainer",
    "use_recurrent",
    "memory_size",
    "sequence_length",
    "gamma",
    "reward_signals",
    "pretraining",
)
# The trainer filled these in by itself; files may hold them, and nobody reads them.
_FILLED_IN: Final = ("summary_path", "model_path", "run_id")
_CLONING: Final = ("demo_path", "batches_per_epoch", "brain_to_imitate")
# What the trainers that learn from demonstrations alone had of the others' keys.
_CLONING_HYPER: Final = ("batch_size", "learning_rate")
KEYS: Final = frozenset({*_HYPER, *_NETWORK, *_PLAIN, *_CURIOSITY, *_OTHERS, *_FILLED_IN, *_CLONING})
# By these a block is known as one of that time: today they stand elsewhere, or nowhere.
TELLING_KEYS: Final = KEYS - {*_PLAIN, "reward_signals"}
# What came with those versions and is not today's default.
SHIPPED: Final[Mapping[str, str]] = {
    "max_steps": "50000",
    "summary_freq": "1000",
    "memory_size": "256",
    "sequence_length": "64",
    "curiosity_strength": "0.01",
    "curiosity_enc_size": "128",
    "gamma": "0.99",
}
SHIPPED_CLONING: Final[Mapping[str, str]] = {**SHIPPED, "sequence_length": "32"}
# Policy and value each had halves of a state of their own, so that time asked for more than today.
ERA_MEMORY: Final = replace(
    kinds.whole(Whole(at_least=4, at_most=65_536, multiple_of=4)),
    allowed="a multiple of 4 from 4 to 65536, as in ML-Agents 0.8 to 0.15",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EraBehaviors:
    """The blocks in today's shape, each complete by itself. default: of brains without a block; None without one."""

    behaviors: MapNode
    default: MapNode | None


def is_era(root: MapNode, others: Mapping[str, object] | frozenset[str]) -> bool:
    """Whether the blocks at the top of a file are brains of that time. others: keys that belong to today's files."""
    own = {name: node for name, node in root.entries.items() if name not in others}
    if any(name == DEFAULT or is_era_block(node) for name, node in own.items()):
        return True
    # Nothing but names of each other.
    return bool(own) and all(isinstance(node, Scalar) and node.text in own for node in own.values())


def is_era_block(node: Node) -> bool:
    """Whether a block holds keys that only that time had in this place."""
    return isinstance(node, MapNode) and bool(TELLING_KEYS & node.entries.keys())


def translate(root: MapNode, findings: Findings) -> EraBehaviors:
    """The file's blocks under today's names."""
    defaults = _resolved(root, DEFAULT, findings) if DEFAULT in root.entries else None
    entries: dict[str, Node] = {}
    for name in root.entries:
        block = None if name == DEFAULT else _resolved(root, name, findings)
        if block is not None:
            place = root.keys[name]
            layers = (*_entries(defaults), *_entries(block))
            entries[name] = _translated((*_shipped(place, layers), *layers), place, findings)
    default = None
    if defaults is not None:
        place = root.keys[DEFAULT]
        layers = tuple(_entries(defaults))
        default = _translated((*_shipped(place, layers), *layers), place, findings)
    keys = {name: root.keys[name] for name in entries}
    return EraBehaviors(behaviors=MapNode(root.place, entries, keys), default=default)


def _resolved(root: MapNode, name: str, findings: Findings) -> MapNode | None:
    """The block of a brain, through all its aliases; None when there is none, which is a fault."""
    chain = [name]
    node = root.entries[name]
    while isinstance(node, Scalar) and not node.is_null:
        target = node.text
        place = root.keys[chain[-1]]
        if target in chain:
            findings.add(_cycle_of(root, chain[chain.index(target) :]))
            return None
        if target not in root.entries:
            known = [each for each in root.entries if each != chain[-1]]
            close = nearest(target, known)
            problem = "is the name of no block in this file"
            findings.add(Fault(place=place, problem=problem, value=target, allowed=listed(known), nearest=close))
            return None
        chain.append(target)
        node = root.entries[target]
    if isinstance(node, MapNode):
        return node
    if isinstance(node, Scalar):
        return empty_map(root.keys[chain[-1]])
    allowed = "a block of keys, or the name of another block"
    place = root.keys[chain[-1]]
    findings.add(Fault(place=place, problem="is not allowed", value=described(node), allowed=allowed))
    return None


def _cycle_of(root: MapNode, names: list[str]) -> Fault:
    """The fault of names that lead to each other: told once, from the first of them in the file."""
    first = next(index for index, name in enumerate(names) if name == min(names, key=list(root.entries).index))
    names = [*names[first:], *names[:first]]
    problem = f"the brain's block is another name of itself: {' -> '.join([*names, names[0]])}"
    return Fault(place=root.keys[names[0]], problem=problem, allowed="a block of keys at the end of such a chain")


Entry = tuple[str, Node, Place]


def _trainer_of(layers: Iterable[Entry]) -> str:
    nodes = {key: node for key, node, _ in layers}
    trainer = nodes.get("trainer")
    return trainer.text if isinstance(trainer, Scalar) else "ppo"


def _shipped(place: Place, layers: Iterable[Entry]) -> Iterator[Entry]:
    for key, text in (SHIPPED_CLONING if _trainer_of(layers) in CLONING_TRAINERS else SHIPPED).items():
        at = Place(place.file, place.line, f"{place.key}.{key}")
        yield key, Scalar(at, text), at


def _entries(block: MapNode | None) -> Iterator[Entry]:
    if block is not None:
        for key, node in block.entries.items():
            yield key, node, block.keys[key]


class _Block:
    """One brain's values, the latest of each key, and the block of today that is made from them."""

    def __init__(self, entries: tuple[Entry, ...], place: Place, findings: Findings) -> None:
        self.place = place
        self._findings = findings
        self._nodes = {key: node for key, node, _ in entries}
        self._places = {key: at for key, _, at in entries}

    def has(self, key: str) -> bool:
        return key in self._nodes

    def at(self, key: str) -> Place:
        return self._places.get(key, self.place)

    def node(self, key: str) -> Node:
        return self._nodes[key]

    def is_true(self, key: str) -> bool:
        """The truth value of `key`; False where there is none, or a wrong one, which is a fault."""
        return bool(self._read(key, kinds.boolean()))

    def check(self, key: str, kind: kinds.Kind[int], *, instead: int) -> None:
        """Notes a fault if the value of `key`, which may be needed by nobody, is none of that kind.

        instead: what then stands in its place, so that what the file does not say brings no second fault.
        """
        if key in self._nodes and self._read(key, kind) is None:
            self._nodes[key] = Scalar(self.at(key), str(instead))

    def _read(self, key: str, kind: kinds.Kind[int] | kinds.Kind[bool]) -> int | bool | None:
        if key not in self._nodes:
            return None
        try:
            return kind.parse(self._nodes[key])
        except ValueError:
            value = described(self._nodes[key])
            fault = Fault(place=self.at(key), problem="is not allowed", value=value, allowed=kind.allowed)
            self._findings.add(fault)
            return None

    def refuse_unknown(self) -> None:
        for key, at in self._places.items():
            if key not in KEYS:
                close = nearest(key, KEYS)
                allowed = None if close else listed(sorted(KEYS))
                self._findings.add(Fault(place=at, problem="unknown key", allowed=allowed, nearest=close))

    def note(self, at: Place, sentence: str) -> None:
        self._findings.note(f"{at}: {sentence}")

    def taken(self, keys: tuple[str, ...]) -> dict[str, tuple[Node, Place]]:
        return {key: (self.node(key), self.at(key)) for key in keys if self.has(key)}

    def word(self, key: str, text: str) -> tuple[Node, Place]:
        """A value that follows from the one of `key`."""
        return Scalar(self.at(key), text), self.at(key)


def _block_of(entries: Mapping[str, tuple[Node, Place]], place: Place) -> tuple[Node, Place]:
    nodes = {key: node for key, (node, _) in entries.items()}
    return MapNode(place, nodes, {key: at for key, (_, at) in entries.items()}), place


def _translated(entries: tuple[Entry, ...], place: Place, findings: Findings) -> MapNode:
    block = _Block(entries, place, findings)
    block.refuse_unknown()
    if block.is_true("use_recurrent"):
        block.check("memory_size", ERA_MEMORY, instead=4)
    else:
        block.check("memory_size", kinds.integer(at_least=1), instead=4)
    block.check("sequence_length", kinds.integer(at_least=1), instead=1)
    top: dict[str, tuple[Node, Place]] = {
        "trainer_type": (block.node("trainer"), block.at("trainer"))
        if block.has("trainer")
        else block.word("trainer", "ppo"),
        "network_settings": _block_of(_network(block), place),
        "checkpoint_interval": (Scalar(place, str(SAVE_FREQ)), place),
        **block.taken(_PLAIN),
    }
    trainer = _trainer_of(entries)
    if trainer in CLONING_TRAINERS:
        source = "demo_path" if trainer == "offline_bc" else "brain_to_imitate"
        top["hyperparameters"] = _block_of(block.taken(_CLONING_HYPER), place)
        top["behavioral_cloning"] = _block_of(block.taken((source, "batches_per_epoch")), place)
    else:
        top["hyperparameters"] = _block_of(_hyperparameters(block), place)
        top["reward_signals"] = _signals(block)
        if block.has("pretraining"):
            top["behavioral_cloning"] = block.node("pretraining"), block.at("pretraining")
    node, _ = _block_of(top, place)
    assert isinstance(node, MapNode)
    return node


def _hyperparameters(block: _Block) -> dict[str, tuple[Node, Place]]:
    taken = block.taken(_HYPER)
    if "learning_rate_schedule" in taken:
        # Then only the learning rate could be held constant.
        taken["beta_schedule"] = block.word("learning_rate_schedule", "linear")
        taken["epsilon_schedule"] = block.word("learning_rate_schedule", "linear")
    return taken


def _network(block: _Block) -> dict[str, tuple[Node, Place]]:
    taken = block.taken(_NETWORK)
    if block.is_true("use_recurrent"):
        taken["memory"] = _block_of(block.taken(("memory_size", "sequence_length")), block.at("use_recurrent"))
    return taken


def _signals(block: _Block) -> tuple[Node, Place]:
    """`reward_signals` as they are (0.9 and later), or what stood in their place before."""
    if block.has("reward_signals"):
        return _in_one_pass(block.node("reward_signals"), block), block.at("reward_signals")
    gamma = (block.node("gamma"), block.at("gamma"))
    signals = {"extrinsic": _block_of({"gamma": gamma, "strength": block.word("gamma", "1.0")}, block.at("gamma"))}
    if block.is_true("use_curiosity"):
        curiosity = {
            "gamma": gamma,
            "strength": (block.node("curiosity_strength"), block.at("curiosity_strength")),
            "encoding_size": (block.node("curiosity_enc_size"), block.at("curiosity_enc_size")),
        }
        signals["curiosity"] = _block_of(curiosity, block.at("use_curiosity"))
    return _block_of(signals, block.place)


def _in_one_pass(signals: Node, block: _Block) -> Node:
    """The signals without the passes that curiosity had of its own: its networks learn in those of the policy."""
    curiosity = signals.entries.get("curiosity") if isinstance(signals, MapNode) else None
    if not isinstance(signals, MapNode) or not isinstance(curiosity, MapNode) or "num_epoch" not in curiosity.entries:
        return signals
    block.note(curiosity.keys["num_epoch"], "num_epoch has no effect; curiosity learns in the passes of the policy")
    entries = {key: node for key, node in curiosity.entries.items() if key != "num_epoch"}
    kept = MapNode(curiosity.place, entries, {key: curiosity.keys[key] for key in entries})
    return MapNode(signals.place, {**signals.entries, "curiosity": kept}, signals.keys)
