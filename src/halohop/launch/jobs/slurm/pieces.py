"""What is the same in all batch scripts: functions of bash, and how a job ends."""

PROCESS = """\
# Runs a command as one process of the job, with a log of its own, and notes a bad end.
process() {
  local name=$1 code=0 asked="" log="$logs/$SLURMD_NODENAME-$1.log"
  trap 'asked=1' TERM  # the command gets the signal, too, and ends when it is ready
  if [[ $name == rank-0 ]]; then  # its output is the job's, too
    "${@:2}" 2>&1 | (trap '' TERM; exec tee -a "$log") || code=$?
  else
    "${@:2}" >> "$log" 2>&1 || code=$?
  fi
  if [[ -n $asked && $name != rank-* ]]; then code=0; fi
  if ((code == 75)) || [[ $code -ne 0 && -z $asked ]]; then
    echo "$((code < 129)) $(date +%s.%N) $code $SLURMD_NODENAME $name" >> "$ends"
  fi
  ((code == 75)) || return "$code"  # 75: the run has saved where it stands, and wants to go on later
}"""

TOKEN = """\
read -r mode owner < <(stat -Lc '%a %u' {file})
if ((0$mode & (owner || ! EUID ? 066 : 026))); then  # as load_token: root may let a group read it
  echo "halohop: others can read or write the token in" {file}"; make a new one, and chmod 600 it"
  exit 2
fi"""

STEPS = """\
# Starts a function of this script as the processes of a job step: FUNCTION OPTION-OF-SRUN...
step() {{
  exec srun --job-name="$1" --export=ALL --input=none --mpi=none --wait=0 "${{@:2}}" bash -c "
    set -euo pipefail
    $(declare -p {variables})
    $(declare -f process "$1")
    $1"
}}

# Sends SIGTERM to the processes of a job step.
end() {{
  local id
  id=$(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format='%i %j' | awk -v name="$1" '$2 == name {{ print $1 }}')
  if [[ -n $id ]]; then scancel --signal=TERM "$id" || true; fi
}}

# Waits until a job step has ended; its exit code is in $code.
await() {{
  while :; do
    code=0
    wait -n || code=$?
    ((code == 138)) || return 0  # 138: SIGUSR1 came meanwhile
  done
}}

# Says which process failed first, and shows the end of its log; one that was killed is the likeliest.
explain() {{
  local first host name log how
  if read -r _ _ first host name < <(LC_ALL=C sort -n -k1,1 -k2,2 "$ends"); then
    code=$first
    log="$logs/$host-$name.log" how=$(kill -l "$code" 2> /dev/null) || how=""
    if ((code > 128)) && [[ -n $how ]]; then how="was killed by SIG$how"; else how="failed with exit code $code"; fi
    echo "halohop: $name on $host $how; the end of $log:"
    tail -n 15 "$log" | sed 's/^/    /'
  else
    echo "halohop: a step of the job ended with exit code $code, and no process said why; see srun's messages in $logs"
    if [[ -n $stopping ]]; then
      echo "halohop: before the time limit, trainers were sent SIGTERM; one that ends with exit code 75 is queued again"
    fi
  fi
}}

# Whether all hosts of the job answer. Trainers miss one that is lost before Slurm does.
answering() {{
  timeout 60 srun --overlap --nodes="${{#hosts[@]}}" --ntasks="${{#hosts[@]}}" --ntasks-per-node=1 true
}}

# Queues the job again, which then goes on.
again() {{
  if ((${{SLURM_RESTART_COUNT:-0}} >= {restarts})); then
    echo "halohop: the job has been queued again {restarts} times, which is its limit (restarts={restarts})"
    exit 75
  fi
  echo "halohop: the job is queued again, to go on where it stands"
  rm -f "$ends"
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
}}"""

BEGIN = """\
mkdir -p "$logs"
: > "$ends"
if ((${{SLURM_RESTART_COUNT:-0}} > {restarts})); then
  echo "halohop: the job has been started again more than {restarts} times, which is its limit (restarts={restarts})"
  exit 1
fi"""

PORT = "port=$((20000 + SLURM_JOB_ID % 798 * 16))  # 16 ports for this job, below those that connections get"

GLOO = """\
  if [[ -z ${GLOO_SOCKET_IFNAME-} ]]; then  # gloo would take the address of the host's own name, which may be the loopback's
    GLOO_SOCKET_IFNAME=$(env "${environment[@]}" "$python" -m halohop.interfaces "${hosts[SLURM_NODEID ? 0 : -1]}") &&
      export GLOO_SOCKET_IFNAME
  fi"""

RESUME = """\
# A job that is queued again resumes its run, or starts it if it had not started.
resume=()
if ((${SLURM_RESTART_COUNT:-0} > 0)); then resume=(--resume auto); fi"""

STOPPING = """\
stopping=""
trap 'stopping=1; echo "halohop: the time is nearly over; trainers save where they stand"; end fetch; end trainer' USR1"""

FETCHED = """\
await
if [[ -n $stopping ]]; then again; fi
if ((code)); then explain; exit "$code"; fi"""

SERVED = """\
trainers=$!
await
if kill -0 "$trainers" 2> /dev/null; then  # servers have ended before the trainers
  kill "$trainers"
  ((code)) || code=1
fi
end server
wait"""

ENDING = """\
if grep -q '^[01] [0-9.]* 75 ' "$ends"; then again; fi
if ((code)) && ! answering; then
  echo "halohop: a host of the job does not answer any more"
  again
fi
if ((code)); then explain; else echo "halohop: done"; fi
rm -f "$ends"
exit "$code\""""
