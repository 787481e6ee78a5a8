"""Torch's number of threads, limited by threads that come and go in any order."""

from crossed_threads import check_crossed


def test_torch_gets_its_number_back_in_every_thread(monkeypatch):
    imports = "import torch\nfrom warmstart.metafeat.device import cpu_threads"
    check_crossed(monkeypatch, imports=imports, number="torch.get_num_threads()", limit="cpu_threads(1)")
