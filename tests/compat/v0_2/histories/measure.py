import sys, time, pathlib

x = float(sys.argv[1])
slow = pathlib.Path("slow")
if slow.exists():
    slow.open("a").write("began\n")
    time.sleep(1)
print(x / 2 + 0.1 * (sys.argv[2] == "b"))
