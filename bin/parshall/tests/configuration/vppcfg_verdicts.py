"""What vppcfg says of files: each case of CASES.yaml laid over its base is written to DIR, and whether it is good is printed.

usage: vppcfg_verdicts.py CASES.yaml DIR
"""
import copy
import json
import os
import sys

import yaml
import vppcfg
from vppcfg.config import Validator


def lay(base, over):
    """`over` put over `base`: maps key by key, null takes out, everything else in its place."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    out = dict(base)
    for key, value in over.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = lay(out.get(key), value)
    return out


cases_file, folder = sys.argv[1:]
home = os.path.dirname(vppcfg.__file__)
with open(cases_file, encoding="utf-8") as f:
    cases = yaml.safe_load(f)
files = {}
for good in (True, False):
    for name, over in cases["good" if good else "bad"].items():
        files[f"{name}.yaml"] = (yaml.safe_dump(lay(cases["base"], over), sort_keys=False), good)
with open(os.path.join(home, "example.yaml"), encoding="utf-8") as f:
    files["example.yaml"] = (f.read(), True)

verdicts, wrong = {}, []
for name, (text, good) in files.items():
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(text)
    validator = Validator(schema=os.path.join(home, "schema.yaml"))
    verdict, messages = validator.validate(copy.deepcopy(yaml.safe_load(text)))
    if verdict != good:
        wrong.append(f"{name}: vppcfg does not find it {'good' if good else 'bad'}: {messages}")
    verdicts[name] = verdict
if wrong:
    sys.exit("\n".join(wrong))
print(json.dumps(verdicts))
