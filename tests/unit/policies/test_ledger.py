"""The guard's ledger against accounts that are kept one by one."""

import random
from dataclasses import dataclass
from typing import Any

import pytest

from sched_client.policies import WaitingEntry
from sched_client.policies.chunk import Chunk
from sched_client.policies.ledger import OvertakingLedger
from sched_client.policies.waiting import Waiting


def stay(number: int, enqueued_s: float, work: float, *, returned: bool = False) -> Waiting:
    entry = WaitingEntry(f"r{number}", enqueued_s, work, 1.0)
    return Waiting(entry, work, number, returned=returned)


@dataclass
class Account:
    item: Waiting
    age_s: float
    served: float = 0.0
    overtaken: float = 0.0


class Accounts:
    """What the ledger must say, in O(n); exact for dyadic numbers of few bits."""

    def __init__(self, phi: float) -> None:
        self.phi = phi
        self.all: list[Account] = []
        self.youngest_s = float("-inf")

    def append(self, item: Waiting) -> None:
        self.youngest_s = max(self.youngest_s, item.enqueued_s)
        self.all.append(Account(item, self.youngest_s))

    def insert(self, item: Waiting) -> None:
        self.youngest_s = max(self.youngest_s, item.enqueued_s)
        older = sum(account.age_s < item.enqueued_s for account in self.all)
        self.all.insert(older, Account(item, item.enqueued_s))

    def take_out(self, index: int, charge: float) -> None:
        del self.all[index]
        for position, account in enumerate(self.all):
            account.served += charge
            account.overtaken += charge if position < index else 0.0

    def slack(self, account: Account) -> float:
        return self.phi * account.served - account.overtaken

    def allows(self, index: int, burst_work: float) -> bool:
        charge = self.all[index].item.charge
        return all(
            self.slack(account) + burst_work + self.phi * charge - charge >= 0
            for account in self.all[:index]
        )


def check(ledger: OvertakingLedger, accounts: Accounts) -> None:
    assert len(ledger) == len(accounts.all)
    assert list(ledger) == [account.item for account in accounts.all]
    for account in accounts.all:
        assert ledger.slack(account.item, 2.0) == accounts.slack(account) + 2.0
    if accounts.all:
        assert ledger.oldest() is accounts.all[0].item
    chunks = [chunk for chunk in ledger._chunks if chunk is not None]
    assert sum(chunk.count for chunk in chunks) == len(accounts.all)
    for chunk in chunks:
        assert chunk.ages[: chunk.end] == sorted(chunk.ages[: chunk.end])
    # None but the last is empty.
    assert len(chunks) <= 1 + len(accounts.all)


@pytest.mark.parametrize("waiting", [3, 40, 500, 1500])
@pytest.mark.parametrize("seed", [1, 2])
def test_accounts_agree_whatever_happens(waiting: int, seed: int) -> None:
    rng = random.Random(100 * waiting + seed)
    ledger, accounts = OvertakingLedger(0.25), Accounts(0.25)
    popped: list[Waiting] = []
    now_s, phis = 0.0, [0.0, 0.25, 0.5]
    for number in range(3000):
        now_s += rng.choice([0.0, 0.0, 0.125, 0.5]) if rng.random() < 0.99 else -3.0
        action = rng.random()
        if action < (0.65 if len(accounts.all) < waiting else 0.35):
            item = stay(number, now_s, rng.choice([0.125, 0.5, 1.0, 3.0, 8.0]))
            ledger.append(item)
            accounts.append(item)
        elif action < 0.85 and accounts.all:
            near_the_oldest = int(rng.expovariate(5.0 / len(accounts.all)))
            index = min(near_the_oldest, rng.randrange(len(accounts.all)))
            item = accounts.all[index].item
            burst_work = rng.choice([0.0, 5.0, 50.0])
            assert ledger.allows(item, burst_work) == accounts.allows(index, burst_work)
            if rng.random() < 0.8:
                ledger.serve(item)
                accounts.take_out(index, item.charge)
                popped.append(item)
            else:
                ledger.discard(item)
                accounts.take_out(index, 0.0)
        elif action < 0.99:
            for _ in range(min(len(popped), rng.choice([1, 1, 30]))):
                before = popped.pop(rng.choice([0, -1]))
                item = stay(number, before.enqueued_s, before.work, returned=True)
                ledger.insert(item)
                accounts.insert(item)
        elif action < 0.995:
            accounts.phi = rng.choice(phis)
            ledger.set_phi(accounts.phi)
        if number % 100 == 0:
            check(ledger, accounts)
    check(ledger, accounts)
    ledger.restart()
    for account in accounts.all:
        account.served = account.overtaken = 0.0
    check(ledger, accounts)


def test_many_that_come_back_stand_where_they_stood() -> None:
    ledger, accounts = OvertakingLedger(0.5), Accounts(0.5)
    items = [stay(number, float(number // 3), 1.0) for number in range(2000)]
    for item in items:
        ledger.append(item)
        accounts.append(item)
    for item in items:
        ledger.serve(item)
        accounts.take_out(0, item.charge)
    assert [chunk for chunk in ledger._chunks if chunk is not None] == [ledger._last]
    back = list(range(2000))
    random.Random(1).shuffle(back)
    for number in [*back[:500], *range(2500, 2000, -1), *back[500:]]:
        item = stay(number, float(number % 2000 // 3), 1.0, returned=True)
        ledger.insert(item)
        accounts.insert(item)
    check(ledger, accounts)


def test_what_is_kept_follows_the_number_waiting() -> None:
    ledger = OvertakingLedger(0.5)
    rng = random.Random(3)
    items = [stay(number, float(number), 1.0) for number in range(20_000)]
    for item in items:
        ledger.append(item)
    for item in rng.sample(items, 19_900):
        ledger.serve(item)
    assert sum(chunk.capacity for chunk in ledger._chunks if chunk is not None) <= 64 * 100
    assert len(ledger._chunks) <= 8 * 100


def test_no_arrival_or_pop_touches_all_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[int] = []
    fill = Chunk.fill

    def counted(chunk: Chunk, items: list[Waiting], *rest: Any) -> None:  # Any: as fill's
        moved.append(len(items))
        fill(chunk, items, *rest)

    monkeypatch.setattr(Chunk, "fill", counted)
    rng = random.Random(4)
    ledger, waiting = OvertakingLedger(0.25), []
    for number in range(15_000):
        item = stay(number, float(number), 1.0)
        ledger.append(item)
        waiting.append(item)
        if number > 5000:
            index = rng.randrange(len(waiting))
            ledger.serve(waiting[index])
            waiting[index] = waiting[-1]
            waiting.pop()
    assert max(moved) <= 128
    assert sum(moved) < 15_000


def test_what_comes_back_finds_its_place_where_chunks_were_joined_over_one_that_was_dropped() -> (
    None
):
    ledger = OvertakingLedger(0.5)
    items = [stay(number, float(number), 1.0) for number in range(600)]
    for item in items:
        ledger.append(item)
    # The first three chunks hold 32, 64 and 128: the second one goes, of the others four are left.
    kept = {0, 1, 2, 3, 96, 97, 98, 99, *range(224, 600)}
    for number in (*range(32, 96), *range(100, 224), *range(4, 32)):
        ledger.discard(items[number])
    assert items[0].chunk is items[99].chunk  # joined
    ledger.insert(stay(1000, 97.5, 1.0, returned=True))
    assert [item.enqueued_s for item in ledger] == sorted([*map(float, kept), 97.5])


def test_who_was_the_oldest_is_charged_to_somebody_older_who_came_back() -> None:
    ledger = OvertakingLedger(0.5)
    items = [stay(number, float(number), 4.0) for number in range(3)]
    for item in items:
        ledger.append(item)
    assert ledger.oldest() is items[0]
    back = stay(3, -1.0, 4.0, returned=True)
    ledger.insert(back)
    ledger.serve(items[0])
    assert ledger.slack(back, 0.0) == 0.5 * 4.0 - 4.0
    assert ledger.slack(items[1], 0.0) == 0.5 * 4.0
    assert ledger.oldest() is back
    ledger.serve(back)
    assert ledger.slack(items[1], 0.0) == 0.5 * 4.0  # what was given back is charged to nobody
