"""The files of packaging/ and the commands of docs/IMMICH-QUALCOMM.md against the command itself, as a self-hoster would use them.

  packaging_files.py INTAGLIO

The Dockerfile's copies exist and its options are known; the compose files are read as they are and with the lines for the NPU taken in,
and what they extend and mount fits together; systemd knows every line of the unit; the guide names only options, environment
variables and files that there are. Exit code 77: skipped.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = SOURCE / "packaging"
INTAGLIO = sys.argv[1]
failures = []


def check(good, message):
    if not good:
        failures.append(message)


def options_of(verb):
    text = subprocess.run([INTAGLIO, verb, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--[a-z][a-z-]+", text)) | set(re.findall(r"(?<![\w-])-[a-z](?![\w-])", text))


VERBS = {v: options_of(v) for v in ("serve", "compile", "doctor", "pull", "bench", "inspect", "run", "compare", "export")}


def check_command(words, where):
    """`intaglio VERB options..`: the verb and each option exist."""
    check(len(words) > 1 and words[1] in VERBS, f"{where}: no command \"{' '.join(words[:2])}\"")
    for word in words[2:]:
        option = word.split("=")[0]
        if option.startswith("-") and len(words) > 1 and words[1] in VERBS:
            check(option in VERBS[words[1]], f"{where}: intaglio {words[1]} has no {option}")


# ---- Dockerfile ----

def instructions(path):
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.M)
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name, rest.strip()


def check_dockerfile():
    stage, stages = None, {}
    for name, rest in instructions(PACKAGING / "Dockerfile"):
        if name == "FROM":
            base, _, stage = re.sub(r"--\S+ ", "", rest).partition(" AS ")
            check(stage != "", f"Dockerfile: a stage without a name: {rest}")
            stages[stage] = {"base": base, "lines": list(stages.get(base, {"lines": []})["lines"])}
            continue
        if stage is None:
            continue
        stages[stage]["lines"].append((name, rest))
        if name == "COPY":
            origin = re.match(r"--from=(\S+) ", rest)
            check(not origin or origin[1] in stages, f"Dockerfile: COPY from an unknown stage: {rest}")
            for source in [] if origin else rest.split()[:-1]:
                check((SOURCE / source).exists(), f"Dockerfile: COPY {source}: there is no such file")
    check({"cpu", "qnn"} <= set(stages), "Dockerfile: the targets cpu and qnn are needed")
    for target in ("cpu", "qnn"):
        lines = stages[target]["lines"]
        last = {name: rest for name, rest in lines}
        for name in ("ENTRYPOINT", "HEALTHCHECK", "USER", "EXPOSE", "VOLUME", "STOPSIGNAL"):
            check(name in last, f"Dockerfile: target {target} has no {name}")
        for name in ("ENTRYPOINT", "HEALTHCHECK"):
            check_command(re.findall(r'"([^"]*)"', last[name]), f"Dockerfile, {target}, {name}")
        check(last["USER"] in last["RUN"] or any(f" {last['USER']}" in r for n, r in lines if n == "RUN"),
              f"Dockerfile: nobody makes the user {last['USER']}")
        environment = " ".join(rest for name, rest in lines if name == "ENV")
        check(f"MACHINE_LEARNING_CACHE_FOLDER={last['VOLUME']}" in environment, "Dockerfile: the volume is not the cache folder")
        check(last["EXPOSE"] == "3003", "Dockerfile: Immich asks port 3003")
    qnn = {name: rest for name, rest in stages["qnn"]["lines"]}
    check('"--backend", "qnn"' in qnn["ENTRYPOINT"], "Dockerfile: the target qnn does not ask for the NPU")
    paths = dict(pair.split("=") for pair in " ".join(r for n, r in stages["qnn"]["lines"] if n == "ENV").split() if "=" in pair)
    return set(stages), paths, last["VOLUME"]


# ---- compose ----

def read_compose(text, where, files):
    import yaml

    services = yaml.safe_load(text)["services"]
    for name, service in services.items():
        extends = (service or {}).get("extends")
        if not extends:
            continue
        check(extends["file"] in files, f"{where}: extends {extends['file']}, which is not there")
        base = yaml.safe_load((PACKAGING / extends["file"]).read_text())["services"]
        check(extends["service"] in base, f"{where}: {extends['file']} has no service {extends['service']}")
        for key, value in (base.get(extends["service"]) or {}).items():
            service[key] = value + service.get(key, []) if isinstance(value, list) else service.get(key, value)
    return services


def check_compose(paths, volume):
    files = {p.name for p in PACKAGING.iterdir()}
    plain = (PACKAGING / "docker-compose.yml").read_text()
    check("extends" not in (read_compose(plain, "docker-compose.yml", files)["immich-machine-learning"]), "docker-compose.yml: NPU by default")
    # As a user takes the lines for the NPU and for calibration in: every comment that is YAML itself.
    wanted = re.sub(r"^(\s*)# ((?:image|extends|  file|  service|command|- /path).*?)( +#.*)?$", r"\1\2", plain, flags=re.M)
    wanted = wanted.replace("    image: intaglio-immich\n", "", 1)
    services = read_compose(wanted, "docker-compose.yml for the NPU", files)
    service = services["immich-machine-learning"]
    check(service["image"] == "intaglio-immich:qnn", f"docker-compose.yml: image {service['image']}")
    for device in service.get("devices", []):
        check(re.fullmatch(r"/dev/[\w/-]+:/dev/[\w/-]+", device), f"hwaccel.ml.yml: device {device}")
    check(service.get("devices"), "hwaccel.ml.yml: no device for the NPU")
    mounts = [v.split(":") for v in service["volumes"]]
    check(any(m[1] == volume for m in mounts), f"docker-compose.yml: nothing is mounted at {volume}")
    for name in ("ADSP_LIBRARY_PATH", "LD_LIBRARY_PATH"):
        check(any(paths[name].startswith(m[1]) for m in mounts), f"hwaccel.ml.yml: {name}={paths[name]} is not mounted")
    for group in service.get("group_add", []):  # A name would have to exist inside the image.
        check(re.fullmatch(r"\d+|\$\{\w+:\?[^}]+\}", str(group)), f"hwaccel.ml.yml: group {group} is neither a number nor asked for")
    check_command(["intaglio", "serve", *service["command"].split()], "docker-compose.yml, command")
    calibration = service["command"].split()[-1]
    check(any(m[1] == calibration for m in mounts), f"docker-compose.yml: {calibration} is not mounted")


# ---- systemd ----

def check_unit():
    unit = (PACKAGING / "intaglio-immich.service").read_text()
    start = re.search(r"^ExecStart=(.*)$", unit, flags=re.M)[1].split()
    check_command(["intaglio", *[w for w in start[1:] if not w.startswith("$")]], "unit")
    options = re.findall(r'INTAGLIO_OPTIONS="([^"]*)"', unit)
    for text in options:
        check_command(["intaglio", "serve", *text.split()], "unit, INTAGLIO_OPTIONS")
    if not shutil.which("systemd-analyze"):
        print("no systemd-analyze here: the unit's lines are not verified")
        return
    with tempfile.TemporaryDirectory() as work:
        place = pathlib.Path(work) / "intaglio-immich.service"
        place.write_text(unit.replace(start[0], str(pathlib.Path(INTAGLIO).resolve())))
        said = subprocess.run(["systemd-analyze", "verify", "--man=no", str(place)], capture_output=True, text=True)
        check(said.returncode == 0 and not said.stderr.strip(), f"systemd-analyze verify: {said.stderr.strip()}")


# ---- the guide ----

def check_guide():
    guide = (SOURCE / "docs/IMMICH-QUALCOMM.md").read_text()
    blocks = "\n".join(re.findall(r"^```\n(.*?)^```", guide, flags=re.M | re.S)).replace("\\\n", " ")
    spans = re.findall(r"`([^`\n]+)`", guide)
    commands = [line for line in blocks.split("\n") + spans if re.match(r"(\w+=\S+ )*intaglio [a-z]", line)]
    check(len(commands) >= 5, "guide: hardly any commands found")
    for command in commands:
        words = re.sub(r"^(\w+=\S+ )*", "", command.split("  #")[0]).split()
        check_command(words, f"guide, \"{command}\"")
    for path in re.findall(r"(?:packaging|docs|tools|src)/[\w./-]*\w", guide):
        check((SOURCE / path).exists(), f"guide: there is no {path}")
    known = "".join(p.read_text() for p in (SOURCE / "src").rglob("*.c")) + (PACKAGING / "Dockerfile").read_text()
    for variable in re.findall(r"`(MACHINE_LEARNING_\w+|IMMICH_\w+|INTAGLIO_\w+|HF_\w+)`", guide):
        check(variable.removeprefix("MACHINE_LEARNING_") in known or variable == "MACHINE_LEARNING_RKNN", f"guide: nothing reads {variable}")
    messages = known + (SOURCE / "src/npu/qnn/codes.def").read_text()
    trouble = guide[guide.index("When something goes wrong"):]
    for row in re.findall(r"^\| (.*?) \|", trouble, flags=re.M):
        if row.startswith("Immich:"):
            continue
        for code in re.findall(r"\b\d{4}\b", row):
            check(f"ITG_QNN_CODE({code}," in messages, f"guide: the library's code {code} is not known")
        for said in re.findall(r"`([^`]+)`", row):
            for part in re.split(r" ?\.\.|'X'", said):
                check(part.strip(": ") in messages, f"guide: nothing says \"{part}\"")
    serve = VERBS["serve"]
    for option in {o for s in spans for o in re.findall(r"(?<!\S)--[a-z-]+", s) if s.startswith("--")}:
        check(any(option in known_options for known_options in VERBS.values()) or option in serve, f"guide: no option {option}")


def main():
    try:
        import yaml  # noqa: F401
    except ImportError:
        print("skipped: needs PyYAML")
        return 77
    _, paths, volume = check_dockerfile()
    check_compose(paths, volume)
    check_unit()
    check_guide()
    for failure in failures:
        print(failure)
    print(f"{len(failures)} mistakes in packaging/ and the guide")
    return 1 if failures else 0


sys.exit(main())
