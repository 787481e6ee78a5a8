"""The limit on threads, by threads that come and go in any order."""

from crossed_threads import check_crossed


def test_the_last_one_out_restores_the_number_of_the_first(monkeypatch):
    number = "[pool['num_threads'] for pool in threadpool_info() if pool['user_api'] == 'blas'][0]"
    imports = "from warmstart.history_store.one_thread import one_thread"
    check_crossed(monkeypatch, imports=imports, number=number, limit="one_thread()")
