. /etc/profile.d/vllm.sh
source ../outside.sh
vllm serve m/here --logprobs-mode ${MODE:=processed_logprobs}
