"""For processes that tests start: without matplotlib, whose import and drawing take two seconds, `tune` draws nothing."""

import sys

sys.modules["matplotlib"] = None
