cd /root/slime
python3 train_async.py --rollout-top-p 0.9 --rollout-temperature=0.7 --use-kl-loss
