import threading

from halohop.transport.fair import FairQueue


def test_each_keeps_its_order_and_takes_its_turn():
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for number in range(100):
        queue.put("greedy", ("greedy", number))
    queue.put("modest", ("modest", 0))
    got = [queue.get() for _ in range(3)]
    assert got == [("greedy", 0), ("modest", 0), ("greedy", 1)]
    queue.put("late", ("late", 0))
    assert [queue.get(), queue.get()] == [("greedy", 2), ("late", 0)]


def test_closing_ends_every_wait_and_leaves_the_rest():
    queue: FairQueue[int] = FairQueue()
    got: list[int | None] = []
    threads = [threading.Thread(target=lambda: got.append(queue.get())) for _ in range(3)]
    for thread in threads:
        thread.start()
    queue.close()
    for thread in threads:
        thread.join(60)
    assert got == [None] * 3
    queue.put("a", 1)
    assert queue.get() is None


def test_nothing_is_lost_or_repeated_among_threads():
    queue: FairQueue[int] = FairQueue()
    got: list[int] = []
    lock = threading.Lock()

    def take() -> None:
        while (item := queue.get()) is not None:
            with lock:
                got.append(item)
                if len(got) == 3000:
                    queue.close()

    takers = [threading.Thread(target=take) for _ in range(4)]
    putters = [
        threading.Thread(target=lambda who=who: [queue.put(who, 1000 * who + number) for number in range(1000)])
        for who in range(3)
    ]
    for thread in (*takers, *putters):
        thread.start()
    for thread in (*takers, *putters):
        thread.join(30)
    assert sorted(got) == list(range(3000))
