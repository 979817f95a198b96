# Cortado with everything that `make setup` installs: the Arm toolchain, QEMU, torch for the CPU, ExecuTorch.
# Nothing in this repository builds this file: no test and no CI. Its packages are those of the Makefile, which a test holds.
#
#   docker build -t cortado .
#   docker run --rm -v "$PWD":/work cortado compile model.py --chip nrf52840 --calibration samples.npy -o build/model
FROM python:3.11-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends \
      build-essential cmake gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm gdb-multiarch \
    && rm -rf /var/lib/apt/lists/*
COPY . /opt/cortado
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
      -r /opt/cortado/requirements.txt && pip install --no-cache-dir --no-deps /opt/cortado
WORKDIR /work
ENTRYPOINT ["cortado"]
