"""The agents of the image: one that needs no key. Replace this file by your own."""

from windlass import Agent

agents = [Agent("assistant", model="demo/guide", instructions="You are a helpful assistant.")]
